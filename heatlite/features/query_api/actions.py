"""The actions of the query API. Each calls the operation of the REST API."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from falcon import Response
from msgspec import Struct

from heatlite.api.access.policy import SIGNAL
from heatlite.api.handlers.common import ignored
from heatlite.api.handlers.resources.resources import metadata_of
from heatlite.api.handlers.stacks import UUID, StackDetails, shown_source
from heatlite.api.request import Request
from heatlite.api.wire import stack_bodies
from heatlite.core.errors import EntityNotFound, Forbidden, StackNotFound
from heatlite.core.json import Json, JsonMap, dump
from heatlite.core.status import Status, Verb
from heatlite.engine.operations.signals import Signals
from heatlite.engine.operations.software_configs import Software
from heatlite.engine.operations.stacks import Stacks
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.values import current_rows
from heatlite.engine.types.outputs import StackReader
from heatlite.features.query_api import parameters, views
from heatlite.features.query_api.callers import KeyReach, within
from heatlite.features.query_api.errors import Code, QueryError
from heatlite.features.query_api.parameters import QueryParameters
from heatlite.plugin.signing import Signalled
from heatlite.store.records import StackRecord
from heatlite.store.stacks.events import EventQuery
from heatlite.store.stacks.stack_query import StackQuery
from heatlite.store.store import Store

ARN: Final = re.compile(r"arn:openstack:heat::(?P<project>[^:/]+):stacks/(?P<name>[^/]+)/(?P<id>[^/]+)")
PAGE: Final = 100
"""Stacks of an answer. Each is shown with its outputs."""
PAGE_SIZE: Final = 8 * 1024 * 1024
"""Characters of JSON from which on a page ends, as many as the outputs of a stack may have."""
EVENT_PAGE: Final = 1000
COST: Final = "http://en.wikipedia.org/wiki/Gratis"
"""Heat's answer to EstimateTemplateCost."""


class QueryCall(Struct, frozen=True):
    """One request of an admitted caller."""

    req: Request
    resp: Response
    given: QueryParameters
    reach: KeyReach | None
    """Reach of a machine's key; None: the caller is a user."""


class QueryAction(Struct, frozen=True):
    """An action: the rule of the REST API that it needs, and the function."""

    rule: str
    run: Callable[[QueryCall], JsonMap]
    changes: bool = False
    """True if the audit log records it."""


class QueryActions:
    """All actions by name."""

    def __init__(
        self,
        store: Store,
        stacks: Stacks,
        software: Software,
        signals: Signals,
        reader: StackReader,
        definitions: Definitions,
        details: StackDetails,
        hidden_tags: Sequence[str],
    ) -> None:
        self._store = store
        self._stacks = stacks
        self._software = software
        self._signals = signals
        self._reader = reader
        self._definitions = definitions
        self._details = details
        self._hidden_tags = hidden_tags
        self.table = {
            "CancelUpdateStack": QueryAction("actions:cancel_update", self._cancel_update, changes=True),
            "CreateStack": QueryAction("stacks:create", self._create, changes=True),
            "DeleteStack": QueryAction("stacks:delete", self._delete, changes=True),
            "DescribeStackEvents": QueryAction("events:index", self._events),
            "DescribeStackResource": QueryAction("resource:metadata", self._resource),
            "DescribeStackResources": QueryAction("resource:index", self._resources),
            "DescribeStacks": QueryAction("stacks:show", self._describe),
            "EstimateTemplateCost": QueryAction("stacks:validate_template", self._cost),
            "GetTemplate": QueryAction("stacks:template", self._template),
            "ListStackResources": QueryAction("resource:index", self._list_resources),
            "ListStacks": QueryAction("stacks:index", self._list),
            "SignalResource": QueryAction(SIGNAL, self._signal, changes=True),
            "UpdateStack": QueryAction("stacks:update", self._update, changes=True),
            "ValidateTemplate": QueryAction("stacks:validate_template", self._validate),
        }

    # -- stacks ------------------------------------------------------------------------------------

    def _create(self, call: QueryCall) -> JsonMap:
        body = {**self._with_template(call.given), "stack_name": call.given.needed("StackName")}
        stack = self._stacks.create(call.req.caller, stack_bodies.definition(body, "required"))
        return {"StackId": views.arn(stack.project, stack.name, stack.id)}

    def _update(self, call: QueryCall) -> JsonMap:
        """Update a stack as PUT does, or as PATCH with UsePreviousTemplate."""
        stack, existing = self._live(call), call.given.text("UsePreviousTemplate") == "true"
        if any(one.get("UsePreviousValue") == "true" for one in call.given.members("Parameters")) and not existing:
            raise QueryError(Code.InvalidParameterValue, "UsePreviousValue needs UsePreviousTemplate: give the value.")
        if existing and "TemplateBody" in call.given:
            raise QueryError(Code.InvalidParameterCombination, first="UsePreviousTemplate", second="TemplateBody")
        body = parameters.definition(call.given) if existing else self._with_template(call.given)
        request = stack_bodies.definition(body, "optional" if existing else "required")
        self._stacks.update(call.req.caller, stack, request, existing)
        return {"StackId": views.arn(stack.project, stack.name, stack.id)}

    @staticmethod
    def _with_template(given: QueryParameters) -> JsonMap:
        body = parameters.definition(given)
        if not body.keys() & {"template", "template_url"}:
            given.needed("TemplateBody")
        return body

    def _delete(self, call: QueryCall) -> JsonMap:
        self._stacks.delete(call.req.caller, self._live(call))
        return {}

    def _cancel_update(self, call: QueryCall) -> JsonMap:
        self._stacks.cancel(call.req.caller, self._live(call), rollback=True)
        return {}

    def _validate(self, call: QueryCall) -> JsonMap:
        request = stack_bodies.definition(self._with_template(call.given), "required")
        return views.validation(self._stacks.validate(call.req.caller, request))

    def _cost(self, call: QueryCall) -> JsonMap:
        return {"Url": COST}

    def _list(self, call: QueryCall) -> JsonMap:
        wanted = {one[""] for one in call.given.members("StackStatusFilter") if "" in one}
        deleted = "DELETE_COMPLETE" in wanted
        found = self._store.stacks.list(
            call.req.caller.project, StackQuery(not_tags_any=self._hidden_tags, show_deleted=deleted)
        )
        shown = map(views.summary, found)
        return {"StackSummaries": [one for one in shown if not wanted or one["StackStatus"] in wanted]}

    def _describe(self, call: QueryCall) -> JsonMap:
        """Describe one stack, or all of the project in pages."""
        if "StackName" in call.given:
            return {"Stacks": [self._shown(call, self._find(call))]}
        query = StackQuery(not_tags_any=self._hidden_tags, limit=PAGE, marker=call.given.text("NextToken"))
        found = self._store.stacks.list(call.req.caller.project, query)
        records = [one for one in (self._store.stacks.get(one.id) for one in found) if one is not None]
        shown = _page(self._shown(call, one) for one in records)
        more = len(found) == PAGE or len(shown) < len(records)
        return {"Stacks": shown, "NextToken": records[len(shown) - 1].id if more and shown else None}

    def _shown(self, call: QueryCall, stack: StackRecord) -> JsonMap:
        return views.stack(stack, self._details.show(call.req, stack, True))

    def _template(self, call: QueryCall) -> JsonMap:
        stack = self._find(call)
        document = self._definitions.of(stack).template.document
        return {"TemplateBody": shown_source(self._reader, call.req.caller, stack, document)}

    def _events(self, call: QueryCall) -> JsonMap:
        stack = self._find(call)
        mask = self._reader.masks(call.req.caller, stack)("")
        query = EventQuery(limit=EVENT_PAGE, marker=call.given.text("NextToken"))
        records = self._store.events.list(stack.id, query)
        shown = _page(views.event(stack, one, mask.json(one.properties)) for one in records)
        more = len(records) == EVENT_PAGE or len(shown) < len(records)
        return {"StackEvents": shown, "NextToken": str(records[len(shown) - 1].id) if more else None}

    # -- resources ---------------------------------------------------------------------------------

    def _resource(self, call: QueryCall) -> JsonMap:
        stack, name = self._find(call), call.given.needed("LogicalResourceId")
        within(call.reach, name)
        row = self._reader.resource(stack, name)
        within(call.reach, row.name)
        metadata = metadata_of(call.req.caller, self._software, self._reader, stack, row)
        return {"StackResourceDetail": views.resource_detail(stack, row, metadata)}

    def _resources(self, call: QueryCall) -> JsonMap:
        stack, name = self._holder(call), call.given.text("LogicalResourceId")
        if name is not None:
            rows = [self._reader.resource(stack, name)]
        else:
            rows = current_rows(self._store.resources.of(stack.id))
        return {"StackResources": [views.resource(stack, row) for row in rows]}

    def _holder(self, call: QueryCall) -> StackRecord:
        """Return the stack that is named, or that has the physical id."""
        physical_id = call.given.text("PhysicalResourceId")
        if physical_id is None:
            return self._find(call)
        if "StackName" in call.given:
            raise QueryError(Code.InvalidParameterCombination, first="StackName", second="PhysicalResourceId")
        for row in self._store.resources.with_objects(call.req.caller.project, [physical_id]):
            stack = self._store.stacks.get(row.stack_id)
            if stack is not None and (call.reach is None or stack.id == call.reach.stack.id):
                return stack
        raise EntityNotFound(entity="Resource", name=physical_id)

    def _list_resources(self, call: QueryCall) -> JsonMap:
        rows = current_rows(self._store.resources.of(self._find(call).id))
        return {"StackResourceSummaries": [views.resource_summary(row) for row in rows]}

    def _signal(self, call: QueryCall) -> JsonMap:
        stack, name = self._live(call), call.given.needed("LogicalResourceId")
        status, identifier = call.given.needed("Status"), call.given.needed("UniqueId")
        if status not in ("SUCCESS", "FAILURE"):
            raise QueryError(Code.InvalidParameterValue, f"Status is SUCCESS or FAILURE, not {status}.")
        within(call.reach, name)
        row = self._reader.resource(stack, name)
        within(call.reach, row.name)
        resource = self._reader.resources_of(stack).make(row)
        details = resource.simple_signal(status == "SUCCESS", identifier) if isinstance(resource, Signalled) else None
        ignored(call.resp, self._signals.signal(call.req.caller, stack, row, details))
        return {}

    # -- finding -----------------------------------------------------------------------------------

    def _live(self, call: QueryCall) -> StackRecord:
        """Return the named stack unless it was deleted. Raises as `_find`."""
        stack = self._find(call)
        if stack.verb is Verb.DELETE and stack.status is Status.COMPLETE:
            raise StackNotFound(name=call.given.needed("StackName"))
        return stack

    def _find(self, call: QueryCall) -> StackRecord:
        """Return the stack named by name, id or ARN.

        An ARN or id also finds a deleted one. Raises QueryError, StackNotFound, and Forbidden for a machine of
        another stack.
        """
        given, project = call.given.needed("StackName"), call.req.caller.project
        match = ARN.fullmatch(given)
        stack_id = match["id"] if match else given
        stack = self._store.stacks.get(stack_id) if UUID.fullmatch(stack_id) else None
        if match and stack is not None and (stack.project, stack.name) != (match["project"], match["name"]):
            stack = None
        if stack is None and not match:
            stack = self._store.stacks.by_name(project, given)
        if stack is not None and stack.project != project:
            stack = None
        if call.reach is not None and (stack is None or stack.id != call.reach.stack.id):
            raise Forbidden("The access key opens resources of its own stack only.")
        if stack is None:
            raise StackNotFound(name=given)
        call.req.concerns(stack)
        return stack


def _page(shown: Iterable[JsonMap]) -> list[Json]:
    """Return the first of the entries that have `PAGE_SIZE` together."""
    page: list[Json] = []
    size = 0
    for one in shown:
        page.append(one)
        size += len(dump(one))
        if size > PAGE_SIZE:
            break
    return page
