"""One stack: its resources, events and outputs, and the forms that act on it."""

from collections.abc import Mapping, Sequence
from typing import Protocol
from urllib.parse import quote

import falcon
from falcon import Response

from heatlite.core.json import Json, JsonMap, as_map, as_maps
from heatlite.features.dashboard.client import ApiError, ProjectApi, href, quoted, text
from heatlite.features.dashboard.frames import Fields, StackAct, stack_action
from heatlite.features.dashboard.pages.deletion import delete
from heatlite.features.dashboard.pages.tree import ResourceNode, graph, rows, shortened, stack_path, tree_of
from heatlite.features.dashboard.site import BrowserRequest, Site, command, go, home, refused, stack_home

NEWEST = 50
"""Events that the page of a stack shows."""


class ResourcesPage:
    """A stack with its resources, its newest events and its outputs."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(
        self, req: BrowserRequest, resp: Response, project: str, name: str, stack_id: str, error: str = ""
    ) -> None:
        """Show the stack."""
        api, path = self._site.api(req, project), f"/stacks/{name}/{stack_id}"
        stack = as_map(api.get(path)["stack"])
        nodes = tree_of(api, path)
        toggled = frozenset(req.get_param_as_list("toggle") or ())
        every, is_whole = [*rows(nodes, toggled)], req.get_param_as_bool("all", default=False)
        shown = every if is_whole else shortened(every)
        sections = [section for one in self._site.added for section in one.of_stack]
        added = {key: value for one in sections for key, value in one.values(req, api, stack).items()}
        self._site.show(
            req,
            resp,
            "stack.html",
            project,
            error=error,
            tab="stacks",
            part="resources",
            stack=stack,
            here=stack_home(req, project, name, stack_id),
            lock=as_map(api.get(f"{path}/lock").get("lock")) if stack.get("locked") else {},
            why={} if stack.get("stack_status") == "DELETE_COMPLETE" else api.get(f"{path}/why"),
            rows=shown,
            left_out=len(every) - len(shown),
            is_whole=is_whole,
            toggled=sorted(toggled),
            graph=graph(nodes, toggled),
            count=sum(1 for node in nodes for _ in node.walk()),
            events=events(api, path, nodes),
            commands=[
                *(command(project, one, name) for one in ("show", "resources", "events")),
                *(line for one in sections for line in one.commands(api, stack)),
            ],
            sections=sections,
            **added,
        )


def events(api: ProjectApi, path: str, nodes: Sequence[ResourceNode], limit: int = NEWEST) -> list[JsonMap]:
    """Return the newest events of a tree, with names as in the table of resources."""
    inside = {node.nested_path: node.key + "/" for root in nodes for node in root.walk() if node.nested_path}
    shown = []
    for one in as_maps(api.get(f"{path}/events", limit=limit, nested_depth=20).get("events")):
        stack = stack_path(href(one.get("links"), "stack"))
        if stack not in inside:
            shown.append(one)
        elif not stack.endswith(f"/{text(one.get('physical_resource_id'))}"):  # its parent resource says the same
            shown.append({**one, "resource_name": inside[stack] + text(one.get("resource_name"))})
    return shown


class ResourcePage:
    """A resource of a stack, or of a stack nested in it."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(
        self,
        req: BrowserRequest,
        resp: Response,
        project: str,
        name: str,
        stack_id: str,
        resource: str,
        error: str = "",
    ) -> None:
        """Show the resource."""
        api, path = self._site.api(req, project), f"/stacks/{name}/{stack_id}"
        node, at = find(api, path, resource)
        one = f"{at}/resources/{quoted(node.name)}"
        shown = as_map(api.get(one).get("resource"))
        try:
            events = as_maps(api.get(f"{one}/events", limit=NEWEST).get("events"))
        except ApiError as missing:
            if missing.status != 404:
                raise
            events = []
        detail: JsonMap = {}
        if events:
            detail = as_map(api.get(f"{one}/events/{text(events[0].get('id'))}").get("event"))
        self._site.show(
            req,
            resp,
            "resource.html",
            project,
            error=error,
            tab="stacks",
            part="resources",
            node=node,
            shown=shown,
            events=events,
            properties=as_map(detail.get("resource_properties")),
            stack={"stack_name": name, "id": stack_id},
            here=stack_home(req, project, name, stack_id),
            commands=[command(project, "resources", name, node.key)],
        )


def find(api: ProjectApi, stack: str, key: str) -> tuple[ResourceNode, str]:
    """Return a resource by its path (``web/2``), and its stack's. Raises ApiError."""
    for root in tree_of(api, stack):
        for node in root.walk():
            if node.key == key:
                return node, node.stack_path
    raise ApiError(404, {"title": f"The Resource ({key}) could not be found in Stack {stack.split('/')[2]}."})


# -- forms -----------------------------------------------------------------------------------------------


def _lock(fields: Fields) -> Json:
    given = {"level": fields.get("level", "all")} | {name: fields.get(name) for name in ("reason", "expires_at")}
    return {name: value for name, value in given.items() if value}


def _mark(api: ProjectApi, stack: str, fields: Fields) -> None:
    node, at = find(api, stack, fields.get("resource", ""))
    is_marked = fields.get("unhealthy") == "true"
    body: JsonMap = {"mark_unhealthy": is_marked}
    if fields.get("reason"):
        body["resource_status_reason"] = fields["reason"]
    api.send("PATCH", f"{at}/resources/{quoted(node.name)}", body)


def _snapshot(method: str, end: str = "") -> StackAct:
    return lambda api, stack, fields: api.send(method, f"{stack}/snapshots/{quoted(fields.get('snapshot', ''))}{end}")


def _suppressed(method: str, end: str) -> StackAct:
    return lambda api, stack, fields: api.send(method, f"{stack}/lock/suppressed/{quoted(fields.get('id', ''))}{end}")


def _protect(fields: Fields) -> Json:
    given = {"resource": fields.get("resource"), "reason": fields.get("reason")}
    return {name: value for name, value in given.items() if value}


def _unprotect(fields: Fields) -> Json:
    return {"resource": fields["resource"]} if fields.get("resource") else None


DEEDS: Mapping[str, StackAct] = {
    "lock": stack_action("lock", _lock),
    "unlock": stack_action("unlock"),
    "mark": _mark,
    "protect": stack_action("protect", _protect),
    "unprotect": stack_action("unprotect", _unprotect),
    "check": stack_action("check"),
    "suspend": stack_action("suspend"),
    "resume": stack_action("resume"),
    "retry": stack_action("retry"),
    "cancel_update": stack_action("cancel_update"),
    "cancel_without_rollback": stack_action("cancel_without_rollback"),
    "snapshot": lambda api, stack, fields: api.send("POST", f"{stack}/snapshots", {"name": fields.get("name") or None}),
    "restore": _snapshot("POST", "/restore"),
    "delete_snapshot": _snapshot("DELETE"),
    "replay": _suppressed("POST", "/replay"),
    "drop": _suppressed("DELETE", ""),
    "delete": delete,
}
"""Forms by the last part of their address."""


class StackView(Protocol):
    """A page of a stack that can show an error."""

    def on_get(
        self, req: BrowserRequest, resp: Response, project: str, name: str, stack_id: str, error: str = ""
    ) -> None:
        """Show the page."""


class Deed:
    """The forms of a stack's pages."""

    def __init__(self, site: Site, pages: Mapping[str, StackView]) -> None:
        """`pages` are those with forms, by their path below the stack."""
        self._site = site
        self._pages = pages
        self._forms = {**DEEDS, **{name: act for one in site.added for name, act in one.stack_forms.items()}}
        self._after = {form: path for one in site.added for form, path in one.after_stack_forms.items()}

    def show_again(
        self, req: BrowserRequest, resp: Response, error: str, project: str, name: str, stack_id: str, deed: str
    ) -> None:
        """Show the page that has the form, with an error."""
        back = self._back(req)
        if deed == "mark" and not back:
            resource = req.fields.get("resource", "")
            req.page = f"{stack_home(req, project, name, stack_id)}/resources/{quote(resource)}"
            ResourcePage(self._site).on_get(req, resp, project, name, stack_id, resource, error)
            return
        req.page = stack_home(req, project, name, stack_id) + back
        self._pages[back].on_get(req, resp, project, name, stack_id, error)

    def _back(self, req: BrowserRequest) -> str:
        back = req.fields.get("back", "")
        return back if back in self._pages else ""

    def on_post(self, req: BrowserRequest, resp: Response, project: str, name: str, stack_id: str, deed: str) -> None:
        """Act, and return to the page that has the form."""
        if deed not in self._forms:
            raise falcon.HTTPNotFound
        if deed == "delete" and req.fields.get("confirm") != name:
            resp.status = falcon.HTTP_400
            self.show_again(req, resp, "Type the name of the stack to delete it.", project, name, stack_id, deed)
            return
        try:
            self._forms[deed](self._site.api(req, project), f"/stacks/{name}/{stack_id}", req.fields)
        except ApiError as error:
            if error.status not in (400, 403, 404, 409):
                raise
            self.show_again(req, resp, refused(resp, error), project, name, stack_id, deed)
            return
        if deed == "delete":
            go(resp, home(req, project), did=deed)
            return
        go(resp, stack_home(req, project, name, stack_id) + self._after.get(deed, self._back(req)), did=deed)
