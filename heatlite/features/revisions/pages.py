"""The page of a stack's revisions: list, differences, and the way back."""

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

from heatlite.core.json import Json, JsonMap, as_map, as_maps
from heatlite.features.dashboard.client import ApiError, ProjectApi, text
from heatlite.features.dashboard.frames import Fields, Pages, StackPage, stack_action
from heatlite.features.dashboard.site import BrowserRequest, command

REFUSALS = (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
"""Answers that say why there is no plan."""


class RevisionsPage(StackPage):
    """The revisions of a root stack.

    On request it has what one has changed, or the plan of a way back.
    """

    template, part = "stack_history.html", "history"

    def values(self, req: BrowserRequest, api: ProjectApi, path: str, stack: JsonMap) -> Mapping[str, object]:
        is_nested = stack.get("parent") is not None
        found = [] if is_nested else as_maps(api.get(f"{path}/revisions").get("revisions"))
        numbers = {text(one.get("number")) for one in found}
        shown, to = req.get_param("diff", default=""), req.get_param("to", default="")
        return {
            "is_nested": is_nested,
            "revisions": found,
            "shown": shown if shown in numbers else "",
            "changes": as_maps(api.get(f"{path}/revisions/{shown}/diff").get("changes")) if shown in numbers else [],
            "plan": _plan(api, path, to) if to in numbers else None,
            "commands": [command(api.project, "history", text(stack.get("stack_name")))],
        }


def _plan(api: ProjectApi, path: str, number: str) -> JsonMap:
    """Return the plan of an undo, or the reason why there is none."""
    try:
        found = as_map(api.send("PATCH", f"{path}/preview", {"undo": {"to": int(number)}}))
    except ApiError as error:
        if error.status not in REFUSALS:
            raise
        return {"to": number, "refusal": error.message}
    return as_map(found.get("plan"))


def _approved(fields: Fields) -> Json:
    """Return the options of an undo whose plan a user has seen."""
    number = fields.get("to", "")
    return {"to": int(number) if number.isdecimal() else number, "plan_digest": fields.get("digest", "")}


PAGES = Pages(
    Path(__file__).with_name("templates"),
    stack={"/history": ("History", RevisionsPage)},
    stack_forms={"undo": stack_action("undo", _approved)},
    after_stack_forms={"undo": "/progress"},
    done={"undo": "The update has begun."},
)
