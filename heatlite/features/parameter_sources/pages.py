"""The page of values that a stack has from others, and others from it."""

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

from heatlite.core.json import Json, JsonMap, as_map, as_maps
from heatlite.features.dashboard.client import ApiError, ProjectApi, text
from heatlite.features.dashboard.frames import Fields, Pages, StackPage, names_of
from heatlite.features.dashboard.site import BrowserRequest, command
from heatlite.features.parameter_sources.wire import SourceState

REFUSALS = (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
"""Answers that say why there is no plan."""
REFRESH: JsonMap = {"refresh": True}


class ValuesPage(StackPage):
    """Sources and readers of a root stack.

    On request it has the plan of an update that reads again.
    """

    template, part = "stack_values.html", "values"

    def values(self, req: BrowserRequest, api: ProjectApi, path: str, stack: JsonMap) -> Mapping[str, object]:
        is_nested, name = stack.get("parent") is not None, text(stack.get("stack_name"))
        sources = [] if is_nested else as_maps(api.get(f"{path}/sources").get("sources"))
        readers = [] if is_nested else as_maps(api.get(f"{path}/readers").get("readers"))
        has_behind = any(one.get("state") == SourceState.BEHIND for one in sources)
        return {
            "is_nested": is_nested,
            "sources": sources,
            "readers": readers,
            "here_too": names_of(api, [text(one.get("stack_id")) for one in (*sources, *readers)]),
            "has_behind": has_behind,
            "plan": _plan(api, path) if has_behind and req.get_param("plan", default="") else None,
            "commands": [command(api.project, "readers", name)],
        }


def _plan(api: ProjectApi, path: str) -> JsonMap:
    """Return the plan of an update that reads again, or the reason why there is none."""
    try:
        found = as_map(api.send("PATCH", f"{path}/preview", REFRESH, {"plan": "true"}))
    except ApiError as error:
        if error.status not in REFUSALS:
            raise
        return {"refusal": error.message}
    return as_map(found.get("plan"))


def _refresh(api: ProjectApi, path: str, fields: Fields) -> Json:
    """Begin an update whose plan a user has seen."""
    return api.send("PATCH", path, {**REFRESH, "plan_digest": fields.get("digest", "")})


PAGES = Pages(
    Path(__file__).with_name("templates"),
    stack={"/values": ("Values", ValuesPage)},
    stack_forms={"refresh": _refresh},
    after_stack_forms={"refresh": "/progress"},
    done={"refresh": "The update has begun."},
)
