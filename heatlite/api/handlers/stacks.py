"""Stacks: list, create, look up, show, update, delete, export; their documents."""

import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus

from falcon import Response
from msgspec import Struct
from msgspec.structs import asdict

from heatlite.api import query
from heatlite.api.handlers.common import StackFinder, ignored, next_page, redirect, set_status
from heatlite.api.request import Request
from heatlite.api.wire import bodies, stack_bodies, views
from heatlite.core.context import Context
from heatlite.core.errors import InvalidTenant, OutputNotFound, StackNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.core.redaction.masking import Mask
from heatlite.core.status import Status, Verb, state
from heatlite.core.wire.stacks import Leftover, StackHealth
from heatlite.engine.operations.stacks import Stacks as StackOperations
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.stack_document import without_sinks
from heatlite.engine.state.values import current_rows, left_over
from heatlite.engine.types.agent_accounts import Accounts
from heatlite.engine.types.outputs import StackReader
from heatlite.store.feature_store import StackFilter
from heatlite.store.records import StackRecord, StackSummary
from heatlite.store.stacks.stack_query import StackQuery
from heatlite.store.store import Store

FILTERS = (
    "id", "name", "status", "action", "tenant", "tenant_id", "username", "owner_id", "stack_name", "stack_action",
    "stack_status", "stack_status_reason", "disable_rollback", "timeout_mins", "stack_owner", "parent",
    "stack_user_project_id",
)  # fmt: skip
LIST_KEYS = (
    *FILTERS, "search", "locked", "unhealthy", "tags", "tags_any", "not_tags", "not_tags_any", "show_deleted",
    "show_nested", "show_hidden", "global_tenant", "with_count", "sort_keys", "sort_key", "sort_dir", "limit", "marker",
    "page_size",
)  # fmt: skip
"""Query keys of a list. Horizon sends `sort_key`; python-heatclient passes on its own `page_size`, which says nothing.
"""
UUID = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE)
ARN = (
    r"/v1/(?P<project>[^/]+)/stacks/arn:openstack:heat::(?P<tenant>[^:/]*)"
    r":stacks/(?P<stack_name>[^/]+)/(?P<stack_id>[^/]+)(?P<rest>/.*)?$"
)
"""Look-up by ARN. Its slashes prevent an ordinary route."""


def list_query(req: Request, hidden_tags: Sequence[str], filters: Mapping[str, StackFilter]) -> StackQuery:
    """Read the query of a list.

    Without `show_hidden` stacks with one of the hidden tags are left out. `filters` are those of features.
    """
    hidden = () if query.flag(req, "show_hidden", blank=True) else hidden_tags
    return StackQuery(
        filters=query.filters(req, FILTERS),
        search=query.text(req, "search", blank=True) or "",
        tags=query.words(req, "tags"),
        tags_any=query.words(req, "tags_any"),
        not_tags=query.words(req, "not_tags"),
        not_tags_any=(*query.words(req, "not_tags_any"), *hidden),
        locked=query.flag(req, "locked", blank=True),
        unhealthy=query.flag(req, "unhealthy", blank=True),
        of_features=tuple(_of_features(req, filters)),
        show_deleted=query.flag(req, "show_deleted", blank=True),
        show_nested=query.flag(req, "show_nested", blank=True),
        sort_keys=(*query.values(req, "sort_keys"), *query.values(req, "sort_key")),
        sort_dir=query.direction(req),
        limit=query.number(req, "limit", blank=True),
        marker=query.text(req, "marker", blank=True),
    )


def _of_features(req: Request, filters: Mapping[str, StackFilter]) -> Iterator[tuple[StackFilter, float | None]]:
    for key, one in filters.items():
        if not one.takes_time:
            if query.flag(req, key, blank=True):
                yield one, None
        elif (moment := query.moment(req, key)) is not None:
            yield one, moment


def user_projects(accounts: Accounts | None, stacks: Sequence[StackRecord | StackSummary]) -> Mapping[str, str]:
    """Map stack ids to the projects that hold the accounts of their agents."""
    return {} if accounts is None or not stacks else accounts.projects(stacks)


def shown_source(reader: StackReader, caller: Context, stack: StackRecord, source: Json) -> Json:
    """Return the template or the files of a stack, as the caller may read them.

    Those of a root stack are its author's, to be used again. What is hidden in them, such as the default of a hidden
    parameter, is for callers who may export the stack. The template of a nested group holds its input.
    """
    if stack.parent_id is None and caller.may_see_hidden:
        return source
    return mask_of(reader, caller, stack).json(source)


def mask_of(reader: StackReader, caller: Context, stack: StackRecord) -> Mask:
    """Return the mask for the stack's input, as the caller may read it.

    A nested stack gets values from its parent, which may be hidden there, or secrets of the parent's resources.
    """
    return reader.mask(stack) if stack.parent_id is None else reader.masks(caller, stack)("")


class Stacks:
    """P/stacks: the stacks of a project."""

    def __init__(
        self,
        stacks: StackOperations,
        store: Store,
        accounts: Accounts | None,
        hidden_tags: Sequence[str],
        further: Sequence[type[Struct]],
    ) -> None:
        """`further` has the keys of features in a definition."""
        self._further = further
        self._stacks = stacks
        self._store = store
        self._accounts = accounts
        self._hidden_tags = hidden_tags

    def on_get(self, req: Request, resp: Response) -> None:
        """List stacks, filtered, sorted and in pages."""
        every_project = query.flag(req, "global_tenant")
        if every_project:
            req.require("stacks:global_index")
        project = None if every_project else req.caller.project
        asked = list_query(req, self._hidden_tags, self._store.stack_filters)
        found = self._store.stacks.list(project, asked)
        listed: JsonMap = {"stacks": self._shown(req, found, every_project)}
        if found and len(found) == asked.limit:
            listed["links"] = [views.link("next", next_page(req, "stacks", found[-1].id))]
        if query.flag(req, "with_count", blank=True):
            listed["count"] = self._store.stacks.count(project, asked)
        resp.media = listed

    def on_get_detail(self, req: Request, resp: Response) -> None:
        """List all live root stacks that are not hidden, without filters and pages."""
        found = self._store.stacks.list(req.caller.project, StackQuery(not_tags_any=self._hidden_tags))
        resp.media = {"stacks": self._shown(req, found)}

    def _shown(self, req: Request, found: Sequence[StackSummary], every_project: bool = False) -> list[JsonMap]:
        """Return what a list shows of stacks, with their projects if asked."""
        projects = user_projects(self._accounts, found)
        roots = [stack.id for stack in found if stack.root_id is None]
        health, facts = self._store.tree_health.of_roots(roots)
        return [
            {**views.summary(req.base, stack, projects, health, every_project), **facts.get(stack.id, {})}
            for stack in found
        ]

    def on_post(self, req: Request, resp: Response) -> None:
        """Create a stack."""
        asked = stack_bodies.create(req, self._further)
        req.concerns(stack_name=asked.name or "")
        stack = self._stacks.create(req.caller, asked)
        url = views.stack_url(req.base, stack)
        resp.status = HTTPStatus.CREATED
        resp.location = url
        resp.media = views.created(url, stack)

    def on_post_preview(self, req: Request, resp: Response) -> None:
        """Preview a create."""
        plan = query.flag(req, "plan")
        asked = stack_bodies.create(req, self._further)
        resp.media = views.preview(req.base, self._stacks.preview_create(req.caller, asked, plan))


class Counts:
    """P/counts: numbers for overviews."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the counts of the project."""
        resp.media = {"counts": asdict(self._store.overview.of(req.caller.project))}


class StackLookup:
    """P/stacks/{name or id} and below: redirects to the canonical URL."""

    def __init__(self, store: Store) -> None:
        self._stacks = store.stacks

    def on_get(self, req: Request, resp: Response, stack_name: str) -> None:
        """Redirect to the stack."""
        redirect(req, resp, self._url(req, stack_name))

    on_post = on_put = on_patch = on_delete = on_get

    def on_get_child(self, req: Request, resp: Response, stack_name: str) -> None:
        """Redirect to a part of the stack."""
        redirect(req, resp, self._url(req, stack_name) + req.path[req.path.rindex("/") :])

    on_post_child = on_get_readable_child = on_get_child

    def by_arn(self, req: Request, resp: Response, **parts: str) -> None:
        """Redirect to the target of an ARN. `parts` are the groups of `ARN`."""
        project, tenant = parts["project"], parts["tenant"]
        if tenant != project:
            raise InvalidTenant(target=tenant, actual=project)
        place = f"{parts['stack_name']}/{parts['stack_id']}{parts['rest'] or ''}"
        redirect(req, resp, f"{views.project_url(req.base, project)}/stacks/{place}")

    def _url(self, req: Request, stack_name: str) -> str:
        """Return the URL of the stack.

        An id also finds a deleted stack; a name only a live one.
        """
        stack: StackRecord | None = None
        if UUID.fullmatch(stack_name):
            stack = self._stacks.get(stack_name)
        if stack is None or stack.project != req.caller.project:
            stack = self._stacks.by_name(req.caller.project, stack_name)
        if stack is None:
            raise StackNotFound(name=stack_name)
        return views.stack_url(req.base, stack)


class StackDetails:
    """Assembles the full view of a stack."""

    def __init__(self, store: Store, definitions: Definitions, reader: StackReader, accounts: Accounts | None) -> None:
        self._store = store
        self._definitions = definitions
        self._reader = reader
        self._accounts = accounts

    def show(self, req: Request, stack: StackRecord, outputs: bool) -> JsonMap:
        """Return the stack; with its outputs if asked, unless it was deleted."""
        roots = [stack.id] if stack.root_id is None else []
        health, facts = self._store.tree_health.of_roots(roots)
        cloud = self._store.stacks.cloud_of(stack)
        definition, counts = self._definitions.of(stack), health.get(stack.id, StackHealth())
        shown = views.show(req.base, stack, definition, counts, cloud, self._leftovers(stack))
        shown.update(facts.get(stack.id, {}))
        shown["stack_user_project_id"] = user_projects(self._accounts, [stack]).get(stack.id)
        shown["parameters"] = mask_of(self._reader, req.caller, stack).json(shown["parameters"])
        if outputs and not (stack.verb is Verb.DELETE and stack.status is Status.COMPLETE):
            shown["outputs"] = self._reader.outputs(stack)
        return shown

    def _leftovers(self, stack: StackRecord) -> list[Leftover]:
        """Return the old objects that a failed operation has left."""
        if stack.state_without_lock[1] is not Status.FAILED:
            return []
        doubled = self._store.resources.of_doubled([stack.id], None)
        return [
            Leftover(
                resource_name=old.name,
                resource_type=old.type,
                physical_resource_id=old.physical_id or "",
                resource_status=state(old.verb, old.status),
                resource_status_reason=old.status_reason,
            )
            for rows in doubled.values()
            for row in current_rows(rows)
            for old in left_over(rows, row)
        ]


class Stack:
    """S: show, update and delete a stack."""

    def __init__(
        self, finder: StackFinder, stacks: StackOperations, details: StackDetails, further: Sequence[type[Struct]]
    ) -> None:
        """`further` has the keys of features in a definition."""
        self._further = further
        self._finder = finder
        self._stacks = stacks
        self._details = details

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Show the stack."""
        outputs = query.flag(req, "resolve_outputs", default=True)
        resp.media = {"stack": self._details.show(req, self._finder.find(req, stack_name, stack_id), outputs)}

    def on_put(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Update the stack. The body is the whole definition."""
        request = stack_bodies.whole(req, self._further)
        self._stacks.update(req.caller, self._finder.find_live(req, stack_name, stack_id), request, existing=False)
        set_status(resp, HTTPStatus.ACCEPTED)

    def on_patch(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Update the stack. The body changes the existing definition."""
        request = stack_bodies.change(bodies.read(req), self._further)
        self._stacks.update(req.caller, self._finder.find_live(req, stack_name, stack_id), request, existing=True)
        set_status(resp, HTTPStatus.ACCEPTED)

    def on_delete(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Delete the stack. ``force=true`` leaves objects behind that cannot be deleted."""
        force, named = query.flag(req, "force"), query.values(req, "retain")
        retain = stack_bodies.deletion({"retain": [*named]} if named else None)
        req.plan_digest = query.text(req, "plan_digest")
        stack = self._finder.find_live(req, stack_name, stack_id)
        if not self._stacks.delete(req.caller, stack, force, retain, req.plan_digest):
            ignored(resp, "no_change")
        resp.status = HTTPStatus.NO_CONTENT


class StackDocuments:
    """S/template, S/environment, S/files and S/outputs."""

    def __init__(self, finder: StackFinder, definitions: Definitions, reader: StackReader) -> None:
        self._finder = finder
        self._definitions = definitions
        self._reader = reader

    def on_get_template(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Return the template as JSON."""
        stack = self._finder.find(req, stack_name, stack_id)
        document = self._definitions.of(stack).template.document
        resp.media = shown_source(self._reader, req.caller, stack, document)

    def on_get_environment(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Return the environment."""
        stack = self._finder.find(req, stack_name, stack_id)
        shown = views.environment(self._definitions.of(stack), self._reader.hidden(stack))
        if not req.caller.may_see_hidden:
            shown = without_sinks(shown)
        resp.media = mask_of(self._reader, req.caller, stack).json(shown)

    def on_get_files(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Return the files."""
        stack = self._finder.find(req, stack_name, stack_id)
        files = self._definitions.of(stack).template.files
        resp.media = shown_source(self._reader, req.caller, stack, {**files})

    def on_get_outputs(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """List the outputs without values."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        resp.media = {"outputs": views.output_names(self._definitions.of(stack))}

    def on_get_output(self, req: Request, resp: Response, stack_name: str, stack_id: str, output_key: str) -> None:
        """Show an output with its value."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        for output in self._reader.outputs(stack):
            if output["output_key"] == output_key:
                resp.media = {"output": output}
                return
        raise OutputNotFound(key=output_key)
