"""Pages of incidents and healing policies, and their parts of other pages."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final

from heatlite.core.errors import HeatliteError
from heatlite.core.json import Json, JsonMap, as_map, as_maps
from heatlite.features.dashboard.client import ApiError, ProjectApi, href, quoted, text
from heatlite.features.dashboard.frames import (
    PAGE,
    DecisionKind,
    Fields,
    Pages,
    ProjectPage,
    Section,
    WaitingRequests,
    following,
    names_of,
    options,
    page_query,
    stack_action,
)
from heatlite.features.dashboard.site import BrowserRequest, Tab, command
from heatlite.features.healing.terms import IGNORABLE, policy_of_yaml
from heatlite.template.source.loader import load


class HealingPage(ProjectPage):
    """The incidents and healing policies of the project."""

    template, tab = "healing.html", "healing"

    def values(self, req: BrowserRequest, api: ProjectApi, **parts: str) -> Mapping[str, object]:
        asked = page_query(req, "state")
        if asked.get("state") == "any":
            del asked["state"]
        elif "state" not in asked:
            asked["state"] = OPEN_STATES
        found = api.get("/incidents", **asked)
        incidents = as_maps(found.get("incidents"))
        policies = api.get("/healing")
        return {
            "incidents": incidents,
            "names": names_of(api, [text(one.get("root_stack_id")) for one in incidents]),
            "state": req.get_param("state", default=""),
            "policies": as_maps(policies.get("healing_policies")),
            "more_policies": href(policies.get("links"), "next"),
            "next": following(found, incidents),
            "commands": [
                command(api.project, "incident", "list", *options(asked)),
                command(api.project, "healing", "list"),
            ],
        }


OPEN_STATES: Final = "OBSERVED,CONFIRMED,MARKED,PROPOSED,REPAIRING,SETTLING"


def _close(api: ProjectApi, given: Fields) -> Json:
    return api.send("POST", f"/incidents/{quoted(given['id'])}/close", {"reason": given.get("reason", "")})


def _approve_repair(api: ProjectApi, given: Fields) -> Json:
    body: JsonMap = {"plan_digest": given.get("digest", "")}
    return api.send("POST", f"/incidents/{quoted(given['id'])}/approve", body)


def _heal(fields: Fields) -> Json:
    given: JsonMap = {"resources": [fields["resource"]]} if fields.get("resource") else {}
    ignored = [name.removeprefix("ignore:") for name in sorted(fields) if name.startswith("ignore:")]
    if ignored:
        given["ignore"] = ignored
    return given | ({"plan_digest": fields["digest"]} if fields.get("digest") else {})


def _policy(api: ProjectApi, stack: str, fields: Fields) -> None:
    try:
        document = policy_of_yaml(load(fields.get("policy", ""), "policy", "Healing policy").data)
    except HeatliteError as error:
        raise ApiError(400, {"title": error.message}) from None
    api.send("PUT", f"{stack}/healing", document)


# -- the page of a stack's health --------------------------------------------------------------------------


def _of_health(req: BrowserRequest, api: ProjectApi, stack: JsonMap) -> Mapping[str, object]:
    """Return the plan of a repair, incidents and the policy."""
    path = f"/stacks/{quoted(text(stack.get('stack_name')))}/{text(stack.get('id'))}"
    plan, refusal = _repair(api, path, stack)
    healing = _healing(api, path, stack)
    incidents, after = page_of(as_maps(healing.get("incidents")), req.get_param("marker", default=""))
    return {
        "healing": healing,
        "incidents": incidents,
        "next": after,
        "holder": _holder(api, stack),
        "plan": plan,
        "refusal": refusal,
        "brakes": sorted(IGNORABLE),
    }


def _of_health_commands(api: ProjectApi, stack: JsonMap) -> Sequence[str]:
    name = text(stack.get("stack_name"))
    return [command(api.project, "health", "show", name), command(api.project, "healing", "show", name)]


def page_of(found: Sequence[JsonMap], marker: str) -> tuple[Sequence[JsonMap], str]:
    """Return the page of a list after the item `marker`, and the next marker."""
    start = next((at for at, one in enumerate(found, 1) if one.get("id") == marker), 0)
    shown = found[start : start + PAGE]
    return shown, text(shown[-1].get("id")) if len(found) > start + PAGE else ""


def _repair(api: ProjectApi, path: str, stack: JsonMap) -> tuple[JsonMap, str]:
    """Return the plan of a repair, or the reason why there is none."""
    if not as_map(stack.get("health")).get("unhealthy"):
        return {}, ""
    try:
        return as_map(as_map(api.send("PATCH", f"{path}/preview", {"heal": None})).get("plan")), ""
    except ApiError as error:
        if error.status not in (400, 403, 404, 409):
            raise
        # A reader has not asked for one.
        return {}, "" if error.status == HTTPStatus.FORBIDDEN else error.message


def _healing(api: ProjectApi, path: str, stack: JsonMap) -> JsonMap:
    """Return the policy, the scopes and the incidents of a root stack."""
    try:
        return api.get(f"{path}/healing")
    except ApiError as error:
        if error.status not in (400, 403, 404) or stack.get("parent") is None:
            raise
        return {}


def _holder(api: ProjectApi, stack: JsonMap) -> JsonMap:
    """Return the stack that holds a nested one; an empty object for a root stack."""
    if stack.get("parent") is None:
        return {}
    found = as_maps(api.get("/stacks", id=text(stack["parent"]), show_nested="True").get("stacks"))
    return found[0] if found else {}


# -- approvals ---------------------------------------------------------------------------------------------


def _proposed(api: ProjectApi) -> WaitingRequests:
    found = api.get("/incidents", state="PROPOSED")
    items = as_maps(found.get("incidents"))
    return WaitingRequests(
        items,
        stacks=[text(one.get("root_stack_id")) for one in items],
        notice="More repairs wait." if href(found.get("links"), "next") else "",
        command=command(api.project, "incident", "list", "--state", "PROPOSED"),
    )


PAGES = Pages(
    Path(__file__).with_name("templates"),
    tabs=(Tab("healing", "Healing", "/healing", "health:show"),),
    project={"/healing": HealingPage},
    forms={"close": _close, "approve_repair": _approve_repair},
    stack_forms={
        "acknowledge": lambda api, stack, fields: api.send(
            "POST", f"{stack}/healing/acknowledge", {"scope": fields.get("scope", "")}
        ),
        "heal": stack_action("heal", _heal),
        "policy": _policy,
        "policy_off": lambda api, stack, _fields: api.send("DELETE", f"{stack}/healing"),
    },
    pages_of_forms={"close": "/healing"},
    after_stack_forms={"heal": "/progress"},
    decisions=(
        DecisionKind(
            "repair",
            template="approve_repairs.html",
            waiting=_proposed,
            approve="approve_repair",
            approve_rule="health:operate",
            reject="close",
            reject_rule="health:operate",
            reject_word="Close",
        ),
    ),
    of_health=(Section("stack_repairs.html", _of_health, "stack_policy.html", _of_health_commands),),
    done={
        "acknowledge": "The suspension is over.",
        "approve_repair": "The repair has begun.",
        "close": "The incident is closed.",
        "heal": "The repair has begun.",
        "policy": "The policy is saved.",
        "policy_off": "The policy is gone: nothing is repaired by itself.",
    },
    long_forms=("policy",),
)
