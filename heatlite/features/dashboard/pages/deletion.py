"""The deletion of a stack: its plan, and the form that confirms it."""

from collections.abc import Iterable, Mapping

from heatlite.core.json import Json, JsonMap, as_map, as_maps
from heatlite.features.dashboard.client import ApiError, ProjectApi, text
from heatlite.features.dashboard.frames import Fields, StackPage
from heatlite.features.dashboard.site import BrowserRequest, command

RETAIN = "retain."
"""Prefix of the fields whose resources keep their objects."""
MOST_ENTRIES = 500


class DeletionPage(StackPage):
    """The objects that go with a stack, and those that stay, before it is deleted."""

    template, part = "deletion.html", "resources"

    def values(self, req: BrowserRequest, api: ProjectApi, path: str, stack: JsonMap) -> Mapping[str, object]:
        retain = _retained([*req.params, *req.fields])
        words = [word for name in retain for word in ("--retain", name)]
        return {
            **_plan(api, path, retain),
            "retain": retain,
            "commands": [command(api.project, "down", text(stack.get("stack_name")), *words)],
        }


def _retained(fields: Iterable[str]) -> list[str]:
    return [*dict.fromkeys(one.removeprefix(RETAIN) for one in fields if one.startswith(RETAIN))]


def _plan(api: ProjectApi, path: str, retain: list[str]) -> Mapping[str, object]:
    """Return the plan of a deletion, or the reason why there is none."""
    asked: Json = {"retain": [*retain]} if retain else None
    try:
        plan = as_map(as_map(api.send("PATCH", f"{path}/preview", {"delete": asked})).get("plan"))
    except ApiError as error:
        if error.status not in (400, 403, 404, 409):
            raise
        return {"plan": {}, "refusal": error.message}
    entries = sorted(as_maps(plan.get("resources")), key=_path)
    nested = {_path(one)[0] for one in entries if len(_path(one)) > 1}
    return {
        "plan": plan,
        "refusal": "",
        "entries": entries[:MOST_ENTRIES],
        "more": len(entries) - MOST_ENTRIES,
        "gone": sum(one.get("action") == "delete" for one in entries),
        "choices": {_path(one)[0] for one in entries if _may_stay(one)} - nested,
    }


def _path(entry: JsonMap) -> list[str]:
    path = entry.get("path")
    return [*map(text, path)] if isinstance(path, list) else []


def _may_stay(entry: JsonMap) -> bool:
    """Return True for a resource whose object stays on request."""
    return len(_path(entry)) == 1 and (entry.get("action") == "delete" or entry.get("selection") == "named")


def delete(api: ProjectApi, stack: str, fields: Fields) -> None:
    """Delete a stack by the plan that a user has seen."""
    api.send("DELETE", stack, query={"plan_digest": fields.get("digest", ""), "retain": _retained(fields)})
