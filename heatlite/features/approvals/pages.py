"""The page of an approval, and the cards of changes that wait."""

from collections.abc import Mapping
from pathlib import Path

from heatlite.core.json import Json, as_map, as_maps
from heatlite.features.dashboard.client import ProjectApi, href, quoted, text
from heatlite.features.dashboard.frames import Act, DecisionKind, Fields, Pages, ProjectPage, WaitingRequests
from heatlite.features.dashboard.site import BrowserRequest, command

OF_STACKS = "create,update,delete,scale"


class ApprovalPage(ProjectPage):
    """An approval: what will run, and where; both decisions; what it began."""

    template, tab = "approval.html", "approvals"

    def values(self, req: BrowserRequest, api: ProjectApi, **parts: str) -> Mapping[str, object]:
        one = as_map(api.get(f"/approvals/{quoted(parts['approval'])}").get("approval"))
        return {"one": one, "commands": [command(api.project, "approval", "show", text(one.get("id")))]}


def _decision(word: str) -> Act:
    def act(api: ProjectApi, fields: Fields) -> Json:
        body = {"digest": fields["digest"]} if word == "approve" else {}
        return api.send("POST", f"/approvals/{quoted(fields['id'])}/{word}", body)

    return act


def _waiting(api: ProjectApi) -> WaitingRequests:
    found = api.get("/approvals", state="PENDING", subject=OF_STACKS)
    items = as_maps(found.get("approvals"))
    return WaitingRequests(
        items,
        stacks=(),
        notice="More changes wait." if href(found.get("links"), "next") else "",
        command=command(api.project, "approval", "list", "--state", "PENDING"),
    )


PAGES = Pages(
    Path(__file__).with_name("templates"),
    project={"/approvals/{approval}": ApprovalPage},
    forms={"approve_change": _decision("approve"), "reject_change": _decision("reject")},
    decisions=(
        DecisionKind(
            "change",
            template="approve_changes.html",
            waiting=_waiting,
            approve="approve_change",
            approve_rule="stacks:approve",
            reject="reject_change",
            reject_rule="stacks:approve",
        ),
    ),
    done={"approve_change": "Approved.", "reject_change": "Rejected."},
)
