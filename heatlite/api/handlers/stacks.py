"""Stacks: list, create, look up, show, change, delete, and what belongs to one."""

import re
from http import HTTPStatus
from urllib.parse import urlencode

from falcon import Response

from heatlite.api import bodies, query, views
from heatlite.api.handlers.handler import Handler
from heatlite.api.request import Request
from heatlite.core.errors import InvalidTenant, OutputNotFound, StackNotFound
from heatlite.core.json import JsonMap
from heatlite.core.masking import Mask
from heatlite.core.status import Status, Verb
from heatlite.engine.state import requests
from heatlite.store.records import StackRecord
from heatlite.store.stacks.stacks import StackQuery

FILTERS = (
    "id", "name", "status", "action", "tenant", "username", "owner_id", "stack_name", "stack_action", "stack_status",
    "stack_status_reason", "disable_rollback", "timeout_mins", "stack_owner", "parent", "stack_user_project_id",
)  # fmt: skip
UUID = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE)
ARN = (
    r"/v1/(?P<project>[^/]+)/stacks/arn:openstack:heat::(?P<tenant>[^:/]*)"
    r":stacks/(?P<stack_name>[^/]+)/(?P<stack_id>[^/]+)(?P<rest>/.*)?$"
)
"""The fifth form of the lookup route; its slashes make it look like a longer path (heat-api §1: identity)."""


def say(resp: Response, status: HTTPStatus) -> None:
    """A body for an answer that has nothing to tell beyond its code."""
    resp.status = status
    resp.media = {"message": "", "code": f"{status.value} {status.phrase}", "title": status.phrase}


def redirect(req: Request, resp: Response, url: str) -> None:
    """302; clients repeat the request there, whatever its method, so the query goes along."""
    say(resp, HTTPStatus.FOUND)
    resp.location = f"{url}?{req.query_string}" if req.query_string else url


def list_query(req: Request) -> StackQuery:
    """What a list asks for. No stack is hidden, so `show_hidden` changes nothing; it is checked as in Heat."""
    query.flag(req, "show_hidden", blank=True)
    return StackQuery(
        filters=query.filters(req, FILTERS),
        tags=query.words(req, "tags"),
        tags_any=query.words(req, "tags_any"),
        not_tags=query.words(req, "not_tags"),
        not_tags_any=query.words(req, "not_tags_any"),
        show_deleted=query.flag(req, "show_deleted", blank=True),
        show_nested=query.flag(req, "show_nested", blank=True),
        sort_keys=query.values(req, "sort_keys"),
        sort_dir=query.direction(req),
        limit=query.number(req, "limit", blank=True),
        marker=query.text(req, "marker", blank=True),
    )


def next_page(req: Request, listed: str, marker: str) -> str:
    """The same page of what is `listed`, behind `marker`."""
    rest = [(name, value) for name in req.params if name != "marker" for value in query.values(req, name)]
    return f"{views.project_url(req.base, req.caller.project)}/{listed}?{urlencode([*rest, ('marker', marker)])}"


class Stacks(Handler):
    """The stacks of a project."""

    def on_get(self, req: Request, resp: Response) -> None:
        """The list, filtered, sorted and in pages."""
        everybody = query.flag(req, "global_tenant")
        if everybody:
            req.require("stacks:global_index")
        project = None if everybody else req.caller.project
        asked = list_query(req)
        found = self.store.stacks.list(project, asked)
        agents = self.agents_of(found)
        listed: JsonMap = {"stacks": [views.summary(req.base, stack, agents, everybody) for stack in found]}
        if found and len(found) == asked.limit:
            listed["links"] = [views.link("next", next_page(req, "stacks", found[-1].id))]
        if query.flag(req, "with_count", blank=True):
            listed["count"] = self.store.stacks.count(project, asked)
        resp.media = listed

    def on_get_detail(self, req: Request, resp: Response) -> None:
        """All live root stacks; no filters, no pages (heat-api §4.2)."""
        found = self.store.stacks.list(req.caller.project, StackQuery())
        agents = self.agents_of(found)
        resp.media = {"stacks": [views.summary(req.base, stack, agents) for stack in found]}

    def on_post(self, req: Request, resp: Response) -> None:
        """Create one."""
        stack = self.stacks.create(req.caller, bodies.create(req))
        url = views.stack_url(req.base, stack)
        resp.status = HTTPStatus.CREATED
        resp.location = url
        resp.media = views.created(url, stack)

    def on_post_preview(self, req: Request, resp: Response) -> None:
        """Show what a create would make."""
        plan = query.flag(req, "plan")
        resp.media = views.preview(req.base, self.stacks.preview_create(req.caller, bodies.create(req), plan))


class Lookup(Handler):
    """A stack by its name or id alone, whichever `stack_name` is."""

    def on_get(self, req: Request, resp: Response, stack_name: str) -> None:
        """Redirect to where it is."""
        redirect(req, resp, self._url(req, stack_name))

    on_post = on_put = on_patch = on_delete = on_get

    def on_get_child(self, req: Request, resp: Response, stack_name: str) -> None:
        """Redirect to what belongs to it."""
        redirect(req, resp, self._url(req, stack_name) + req.path[req.path.rindex("/") :])

    on_post_child = on_get_readable_child = on_get_child

    def by_arn(self, req: Request, resp: Response, **parts: str) -> None:
        """Redirect to what an ARN names; `parts` are the groups of `ARN`."""
        project, tenant = parts["project"], parts["tenant"]
        if tenant != project:
            raise InvalidTenant(target=tenant, actual=project)
        place = f"{parts['stack_name']}/{parts['stack_id']}{parts['rest'] or ''}"
        redirect(req, resp, f"{views.project_url(req.base, project)}/stacks/{place}")

    def _url(self, req: Request, stack_name: str) -> str:
        """An id also finds a deleted stack; a name only a live one."""
        stack: StackRecord | None = None
        if UUID.fullmatch(stack_name):
            stack = self.store.stacks.get(stack_name)
        if stack is None or stack.project != req.caller.project:
            stack = self.store.stacks.by_name(req.caller.project, stack_name)
        if stack is None:
            raise StackNotFound(name=stack_name)
        return views.stack_url(req.base, stack)


class Stack(Handler):
    """S and what is read of it."""

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Show it, with its outputs unless they are not wanted or the stack is gone."""
        resolve = query.flag(req, "resolve_outputs", default=True)
        stack = self.find(req, stack_name, stack_id)
        shown = views.show(req.base, stack, self.definitions.of(stack))
        cloud = self.store.stacks.cloud_of(stack)
        shown["cloud"] = None if cloud is None else cloud.to_json()
        shown["stack_user_project_id"] = self.agents_of([stack]).get(stack.id)
        shown["parameters"] = self._mask(req, stack).json(shown["parameters"])
        if resolve and not (stack.verb is Verb.DELETE and stack.status is Status.COMPLETE):
            shown["outputs"] = self.reading.outputs(stack)
        resp.media = {"stack": shown}

    def on_put(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Update: the body is the whole definition."""
        request = bodies.replace(req)
        self.stacks.update(req.caller, self.find_live(req, stack_name, stack_id), request, existing=False)
        say(resp, HTTPStatus.ACCEPTED)

    def on_patch(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Update: the body changes the definition that is there."""
        request = bodies.change(req)
        self.stacks.update(req.caller, self.find_live(req, stack_name, stack_id), request, existing=True)
        say(resp, HTTPStatus.ACCEPTED)

    def on_delete(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Delete it; with ``force=true`` whatever does not go."""
        force = query.flag(req, "force")
        self.stacks.delete(req.caller, self.find_live(req, stack_name, stack_id), force)
        resp.status = HTTPStatus.NO_CONTENT

    def on_put_preview(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Show what a PUT would do."""
        resp.media = self._foreseen(req, self.find_live(req, stack_name, stack_id), bodies.replace(req), False)

    def on_patch_preview(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Show what a PATCH would do."""
        resp.media = self._foreseen(req, self.find_live(req, stack_name, stack_id), bodies.change(req), True)

    def _foreseen(self, req: Request, stack: StackRecord, request: requests.Request, existing: bool) -> JsonMap:
        nested, plan = query.flag(req, "show_nested"), query.flag(req, "plan")
        return views.changes(self.stacks.preview_update(req.caller, stack, request, existing, nested, plan))

    def on_get_template(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """The template, as JSON."""
        stack = self.find(req, stack_name, stack_id)
        document = self.definitions.of(stack).template.document
        # A group's is made of what it was given; the root's is its author's, who may want to use it again.
        resp.media = self._mask(req, stack).json(document) if stack.parent_id else document

    def on_get_environment(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """The environment."""
        stack = self.find(req, stack_name, stack_id)
        shown = views.environment(self.definitions.of(stack), self.reading.hidden(stack))
        resp.media = self._mask(req, stack).json(shown)

    def _mask(self, req: Request, stack: StackRecord) -> Mask:
        """What the caller must not read of what the stack was given.

        A nested stack is given values by its parent, which may be hidden there, or secrets of its resources.
        """
        return self.reading.mask(stack) if stack.parent_id is None else self.reading.masks(req.caller, stack)("")

    def on_get_files(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """The files."""
        stack = self.find(req, stack_name, stack_id)
        resp.media = self.definitions.of(stack).template.files

    def on_delete_abandon(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Forget it and leave its objects alone; the answer is its record."""
        resp.media = self.handover.abandon(req.caller, self.find_live(req, stack_name, stack_id))

    def on_get_export(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Its record."""
        resp.media = self.handover.export(self.find_live(req, stack_name, stack_id))

    def on_get_outputs(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """The outputs, without values."""
        stack = self.find_live(req, stack_name, stack_id)
        resp.media = {"outputs": views.output_names(self.definitions.of(stack))}

    def on_get_output(self, req: Request, resp: Response, stack_name: str, stack_id: str, output_key: str) -> None:
        """One output with its value."""
        stack = self.find_live(req, stack_name, stack_id)
        for output in self.reading.outputs(stack):
            if output["output_key"] == output_key:
                resp.media = {"output": output}
                return
        raise OutputNotFound(key=output_key)
