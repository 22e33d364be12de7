"""Wire shapes of records.

Pure functions. `base` is the URL at which clients reach the server.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import cast
from urllib.parse import quote

from msgspec import UNSET, to_builtins
from msgspec.structs import replace

from heatlite.api.access.policy import SIGNAL
from heatlite.api.wire import health_views, plan_views
from heatlite.core.clock import to_text
from heatlite.core.clouds import CloudIdentity
from heatlite.core.context import Context
from heatlite.core.json import Json, JsonMap, as_map, as_texts
from heatlite.core.redaction.masking import MASK, NOTHING, Mask
from heatlite.core.status import ENDED_ACTIONS, ActionStatus, Verb, state
from heatlite.core.wire.actions import Action, ActionContext, BegunAction, Transition
from heatlite.core.wire.base import filled, shown
from heatlite.core.wire.events import Event, EventDetails
from heatlite.core.wire.locks import Lock, LockHolder, SuppressedRequest, SuppressedStack
from heatlite.core.wire.resources import Resource, ResourceDetails, ResourceObject
from heatlite.core.wire.stacks import Described, Leftover, ListedStack, StackHealth, StackState
from heatlite.engine.operations import software_configs
from heatlite.engine.state.requests import Preview, PreviewResource, PreviewTree, ResourceChanges, ShownPlan
from heatlite.engine.state.stack_document import protection
from heatlite.engine.state.unit_of_work import MOVED_FROM
from heatlite.plugin.ports import PASSWORD_INPUT, SIGNAL_INPUT
from heatlite.store.records import (
    REPORT_INTERVAL,
    ActionRecord,
    DroppedRecord,
    EventRecord,
    HealthNote,
    LockRecord,
    Relations,
    ResourceRecord,
    ServiceRecord,
    SnapshotRecord,
    SoftwareConfigRecord,
    SoftwareDeploymentRecord,
    StackRecord,
    StackSummary,
    SuppressedRecord,
    TransitionRecord,
)
from heatlite.template.document import Definition

NO_DESCRIPTION = "No description"


# -- links ------------------------------------------------------------------------------------------


def project_url(base: str, project: str) -> str:
    """Return the endpoint of a project."""
    return f"{base}/v1/{quote(project, safe='')}"


def stack_url(base: str, stack: StackRecord | StackSummary) -> str:
    """Return the canonical URL of a stack."""
    return url_of(base, stack.project, stack.name, stack.id)


def url_of(base: str, project: str, name: str, stack_id: str) -> str:
    """Return the canonical URL of the stack with this name and id."""
    return f"{project_url(base, project)}/stacks/{quote(name, safe='')}/{stack_id}"


def action_url(base: str, project: str, action_id: str) -> str:
    """Return the URL of an action."""
    return f"{project_url(base, project)}/actions/{action_id}"


def link(rel: str, href: str) -> JsonMap:
    """Return an entry of `links`."""
    return {"href": href, "rel": rel}


# -- stacks -----------------------------------------------------------------------------------------


def created(url: str, stack: StackRecord) -> JsonMap:
    """Return the answer to a create."""
    return {"stack": {"id": stack.id, "links": [link("self", url)]}}


def summary(
    base: str,
    stack: StackSummary,
    agents: Mapping[str, str],
    health: Mapping[str, StackHealth],
    project: bool = False,
) -> JsonMap:
    """Return a stack for a list, with its project if asked.

    The description is empty, as in Heat.
    `agents` maps stack ids to the projects of their agents' accounts, `health` to the counts of their trees.
    """
    return shown(
        ListedStack(
            id=stack.id,
            links=[link("self", stack_url(base, stack))],
            stack_name=stack.name,
            description="",
            stack_status=state(stack.verb, stack.status),
            stack_status_reason=stack.status_reason,
            creation_time=to_text(stack.created_at),
            updated_time=to_text(stack.updated_at),
            deletion_time=to_text(stack.deleted_at),
            stack_owner=stack.username,
            parent=stack.parent_id,
            stack_user_project_id=agents.get(stack.id),
            tags=list(stack.tags) or None,
            locked=stack.locked,
            protected=stack.protected,
            health=health.get(stack.id, StackHealth()) if stack.root_id is None else None,
            project=stack.project if project else UNSET,
            restricted=plan_views.restricted(stack.restricted),
        )
    )


def show(
    base: str, stack: StackRecord, definition: Definition, health: StackHealth, cloud: CloudIdentity | None,
    leftovers: list[Leftover],
) -> JsonMap:  # fmt: skip
    """Return a stack without its outputs."""
    actions = link("actions", f"{project_url(base, stack.project)}/actions?target={stack.id}")
    now = StackState(
        stack_status=state(stack.verb, stack.status),
        stack_status_reason=stack.status_reason,
        locked=stack.locked,
        protection=protection(stack.protection),
        health=health if stack.root_id is None else None,
        cloud=cloud,
        restricted=plan_views.restricted(stack.restricted),
        leftovers=leftovers or UNSET,
    )
    return {**_described(base, stack, definition, actions), **shown(now)}


def _described(base: str, stack: StackRecord, definition: Definition, *links: JsonMap) -> JsonMap:
    description = definition.template.description or NO_DESCRIPTION
    return shown(
        Described(
            id=stack.id,
            links=[link("self", stack_url(base, stack)), *links],
            stack_name=stack.name,
            description=description,
            template_description=description,
            creation_time=to_text(stack.created_at),
            updated_time=to_text(stack.updated_at),
            deletion_time=to_text(stack.deleted_at),
            parameters={name: definition.parameters.as_text(name) for name in definition.parameters},
            disable_rollback=stack.disable_rollback,
            timeout_mins=stack.timeout_mins,
            stack_owner=stack.username,
            parent=stack.parent_id,
            stack_user_project_id=None,
            tags=list(stack.tags),
            notification_topics=[],
            capabilities=[],
        )
    )


def output_names(definition: Definition) -> list[JsonMap]:
    """Return the outputs without values."""
    return [
        {"output_key": name, "description": output.description}
        for name, output in definition.outputs.items()
    ]


def environment(definition: Definition, hidden: Iterable[str]) -> JsonMap:
    """Return the environment without hidden values, also those of nested stacks."""
    return definition.shown_environment(hidden)


# -- resources --------------------------------------------------------------------------------------


def resource(
    base: str,
    stack: StackRecord,
    row: ResourceRecord,
    required_by: Sequence[str],
    nested: bool,
    notes: Sequence[HealthNote],
    old: Sequence[ResourceRecord] = (),
) -> JsonMap:
    """Return a resource for a list, with its health.

    `nested` adds the link to its nested stack. `old` are its rows that wait for their clean-up: clients of Heat expect
    one resource for each name, so these are a key of it.
    """
    url = stack_url(base, stack)
    links = [link("self", f"{url}/resources/{quote(row.name, safe='')}"), link("stack", url)]
    if nested and row.physical_id is not None:
        links.append(link("nested", url_of(base, stack.project, row.physical_name, row.physical_id)))
    one = Resource(
        resource_name=row.name,
        logical_resource_id=row.name,
        physical_resource_id=row.physical_id or "",
        resource_type=row.type,
        resource_status=state(row.verb, row.status),
        resource_status_reason=row.status_reason,
        creation_time=to_text(row.created_at),
        updated_time=to_text(row.updated_at if row.updated_at is not None else row.created_at),
        required_by=list(required_by),
        links=links,
        protection=protection(row.protection),
        deletion_policy="Retain" if row.external_id is not None else row.deletion_policy.capitalize(),
        parent_resource=UNSET if stack.parent_resource is None else stack.parent_resource,
        moved_from=str(row.data[MOVED_FROM]) if MOVED_FROM in row.data else UNSET,
        left_over=[_object(other) for other in old] or UNSET,
    )
    return {**shown(one), **health_views.of_resource(row, notes, nested)}


def _object(row: ResourceRecord) -> ResourceObject:
    """Return the old object of a row, with its state."""
    return ResourceObject(
        physical_resource_id=row.physical_id or "",
        resource_type=row.type,
        resource_status=state(row.verb, row.status),
        resource_status_reason=row.status_reason,
        creation_time=to_text(row.created_at),
        updated_time=to_text(row.updated_at if row.updated_at is not None else row.created_at),
    )


def details(row: ResourceRecord, attributes: Mapping[str, Json]) -> JsonMap:
    """Return the fields that a list omits: description and attributes."""
    return shown(ResourceDetails(description=row.description, attributes=dict(attributes)))


# -- previews: Heat shows its internal records here, with other keys ---------------------------------


def preview(base: str, planned: Preview) -> JsonMap:
    """Return the stack that a create would make."""
    plan = planned.plan
    return {
        "stack": {
            **_described(base, planned.stack, planned.definition),
            "id": "None",
            "resources": [_branch(item) for item in planned.resources],
        },
        # No digest: without existing resources, a plan cannot become out of date.
        **({} if plan is None else {"plan": {"resources": plan_views.planned(plan.resources), **plan.details}}),
    }


def _branch(item: PreviewTree) -> Json:
    if isinstance(item, tuple):
        return [_branch(inner) for inner in item]
    return preview_resource(item, properties=True)


def changes(planned: ResourceChanges) -> JsonMap:
    """Return the changes of an update."""
    lists = {
        "unchanged": planned.unchanged,
        "updated": planned.updated,
        "replaced": planned.replaced,
        "added": planned.added,
        "deleted": planned.deleted,
    }
    plan = planned.plan
    return {
        "resource_changes": {
            kind: [preview_resource(item, properties=False) for item in items] for kind, items in lists.items()
        },
        **({} if plan is None else {"plan": plan_views.of_change(plan)}),
    }


def repair(plan: ShownPlan) -> JsonMap:
    """Return the plan of an operation on resources.

    It has what the next update changes of the result, if anything.
    """
    return {"plan": plan_views.of_change(plan)}


def preview_resource(item: PreviewResource, properties: bool) -> JsonMap:
    """Return a resource of a preview, with its parent resource and nested stack."""
    row, stack = item.record, item.stack
    identity = {"tenant": stack.project, "stack_name": stack.name, "stack_id": stack.id}
    shown: JsonMap = {
        "resource_name": row.name,
        "physical_resource_id": row.physical_id or "",
        "resource_action": row.verb,
        "resource_status": row.status,
        "resource_status_reason": row.status_reason,
        "resource_type": row.type,
        "resource_identity": {**identity, "path": f"/resources/{row.name}"},
        "stack_identity": {**identity, "path": ""},
        "stack_name": stack.name,
        "required_by": list(item.required_by),
        "creation_time": to_text(row.created_at),
        "updated_time": to_text(row.updated_at if row.updated_at is not None else row.created_at),
        "description": row.description,
        "metadata": row.metadata,
        "attributes": dict(item.attributes),
    }
    if properties:
        shown["properties"] = row.properties
    if stack.parent_resource is not None:
        shown["parent_resource"] = stack.parent_resource
    if item.nested_stack_id is not None:
        shown["nested_stack_id"] = item.nested_stack_id
    return shown


# -- events -----------------------------------------------------------------------------------------


def event(url: str, record: EventRecord, root: str | None = None) -> Event:
    """Return an event for a list.

    `url` is that of its stack, `root` that of the root stack or None.
    """
    resource_url = f"{url}/resources/{quote(record.resource_name, safe='')}"
    links = [
        link("self", f"{resource_url}/events/{record.id}"),
        link("resource", resource_url),
        link("stack", url),
    ]
    if root is not None:
        links.append(link("root_stack", root))
    return Event(
        id=str(record.id),
        links=links,
        event_time=to_text(record.created_at),
        resource_name=record.resource_name,
        logical_resource_id=record.resource_name,
        physical_resource_id=record.physical_id or "",
        resource_status=state(record.verb, record.status),
        resource_status_reason=record.status_reason,
    )


def event_detail(url: str, record: EventRecord) -> JsonMap:
    """Return an event with the type and properties of its resource."""
    more = EventDetails(resource_type=record.resource_type, resource_properties=record.properties)
    return {**shown(event(url, record)), **shown(more)}


# -- software ---------------------------------------------------------------------------------------


def config_summary(record: SoftwareConfigRecord, project: bool = False) -> JsonMap:
    """Return a software configuration for a list, with its project if asked."""
    return {
        "id": record.id,
        "name": record.name,
        "group": record.group,
        "creation_time": to_text(record.created_at),
        **({"project": record.project} if project else {}),
    }


def masked_inputs(caller: Context, by_agent: bool = False) -> frozenset[str]:
    """Return the inputs whose values are masked for a caller.

    `by_agent` is True on routes for agents.
    """
    if not caller.may(SIGNAL):
        return frozenset({PASSWORD_INPUT, SIGNAL_INPUT})
    return frozenset() if by_agent else frozenset({PASSWORD_INPUT})


def config(record: SoftwareConfigRecord, masked: frozenset[str], mask: Mask) -> JsonMap:
    """Return a software configuration.

    Masks the values of inputs in `masked` wherever they occur. `mask` is that of its stack.
    """
    inputs = Mask(lambda: [one.get("value") for one in record.inputs if one.get("name") in masked])
    return cast(JsonMap, mask.json(inputs.json(software_configs.shown(record))))


def deployment(record: SoftwareDeploymentRecord, masked: frozenset[str], mask: Mask) -> JsonMap:
    """Return a software deployment.

    Masks the inputs in `masked`; has `updated_time` after a change. `mask` is that of its stack.
    """
    inputs: JsonMap = {name: MASK if name in masked else value for name, value in record.input_values.items()}
    return {
        "id": record.id,
        "server_id": record.server_id,
        "config_id": record.config_id,
        "input_values": mask.json(inputs),
        "output_values": mask.json(record.output_values) or None,
        "action": record.action or None,
        "status": record.status or None,
        "status_reason": mask.text(record.status_reason),
        "creation_time": to_text(record.created_at),
        **({} if record.updated_at is None else {"updated_time": to_text(record.updated_at)}),
    }


def deployment_outline(record: SoftwareDeploymentRecord, most: int) -> JsonMap:
    """Return a software deployment for a list that has no room for its values.

    The values of a list have at most `most` characters of JSON.
    """
    reason = f"The values of the list come to more than {most} characters of JSON (max_resource_data)."
    left_out = dict.fromkeys(("input_values", "output_values", "status_reason"))
    return {**deployment(record, frozenset(), NOTHING), **left_out, "values_error": f"{reason} Show the deployment."}


# -- actions ----------------------------------------------------------------------------------------


def action_word(verb: Verb) -> str:
    """Return the kind of an action: ``STACK_UPDATE``."""
    return f"STACK_{verb}"


def begun(record: ActionRecord) -> JsonMap:
    """Return the answer to a request that has begun an action, or has ended it."""
    waits = ActionStatus.READY if record.request is None else ActionStatus.INIT
    return shown(
        BegunAction(
            id=record.id,
            name=record.name,
            action=record.word,
            target=record.stack_id,
            status=record.status if record.status in ENDED_ACTIONS else waits,
        )
    )


def _data(record: ActionRecord, guard: JsonMap | None) -> JsonMap:
    data: JsonMap = to_builtins(replace(record.data, old=(), unclean={}))
    return {**data, "guard": {**as_map(data.get("guard")), **guard}} if guard else data


def action(base: str, record: ActionRecord, relations: Relations, guard: JsonMap | None = None) -> JsonMap:
    """Return an action with all visible fields. `guard` has further keys of its guard.

    Omits the input `resources` of an adoption or a restore: it contains internal data of resource types. Its inputs are
    the body of the request where that is kept.
    """
    ended, asked = to_text(record.finished_at), record.inputs.request
    return shown(
        filled(
            Action,
            record,
            action=record.word,
            operation=record.inputs.operation,
            target=record.stack_id,
            context=ActionContext(
                user=record.requested_by,
                project=record.project,
                roles=[*as_texts(record.context.get("roles"))],
                request_id=str(record.context.get("request_id", "")),
            ),
            start_time=to_text(record.started_at),
            stop_time=ended,
            end_time=ended,
            interval=record.interval if record.interval % 1 else int(record.interval),
            inputs=to_builtins(replace(record.inputs, resources=None) if asked is None else asked),
            outputs=to_builtins(record.outputs),
            data=_data(record, guard),
            parent=record.parent_id,
            depends_on=list(relations.depends_on),
            depended_by=list(relations.depended_by),
            approval_id=record.approval_id or UNSET,
            links=[
                link("self", action_url(base, record.project, record.id)),
                link("stack", f"{project_url(base, record.project)}/stacks/{record.stack_id}"),
            ],
        )
    )


def transition(record: TransitionRecord) -> JsonMap:
    """Return a transition of an action."""
    return shown(filled(Transition, record, from_=record.before, to=record.after))


# -- snapshots, locks, services ---------------------------------------------------------------------


def snapshot(record: SnapshotRecord) -> JsonMap:
    """Return a snapshot. `data` is null until it is complete."""
    return {
        "id": record.id,
        "name": record.name,
        "action": record.verb.value,
        "status": record.status.value,
        "status_reason": record.status_reason,
        "data": record.data,
        "creation_time": to_text(record.created_at),
    }


def lock(
    stack: StackRecord,
    holder: StackRecord | None,
    suppressed: Iterable[SuppressedRecord],
    dropped: DroppedRecord | None = None,
    tree: Mapping[str, str] = MappingProxyType({}),
) -> JsonMap:
    """Return the lock that covers `stack`. `holder` is the stack that it was set on.

    `tree` maps the ids of the stack and its nested stacks to their names.
    """
    held = None if holder is None or holder.lock is None else _lock(stack, holder, holder.lock)
    shown: JsonMap = {"lock": held, "suppressed": [_suppressed(entry, tree) for entry in suppressed]}
    if dropped is not None:
        shown["dropped"] = {"count": dropped.count, "last_time": to_text(dropped.last_time)}
    return shown


def _suppressed(entry: SuppressedRecord, tree: Mapping[str, str]) -> JsonMap:
    sent_to = SuppressedStack(id=entry.stack_id, name=tree.get(entry.stack_id))
    last = to_text(entry.last_time or entry.time)
    return shown(filled(SuppressedRequest, entry, id=str(entry.id), stack=sent_to, last_time=last))


def _lock(stack: StackRecord, holder: StackRecord, held: LockRecord) -> JsonMap:
    above = None if holder.id == stack.id else LockHolder(id=holder.id, name=holder.name)
    return shown(filled(Lock, held, inherited_from=above))


def service(record: ServiceRecord, is_up: bool, running: Sequence[ActionRecord], project: str) -> JsonMap:
    """Return an engine, with the running actions of the caller's project only.

    `running` are the running actions of all engines.
    """
    doing = [action for action in running if action.owner == record.id]
    own = [action for action in doing if action.project == project]
    return {
        "id": record.id,
        "engine_id": record.id,
        "host": record.host,
        "hostname": record.host,
        "binary": record.binary,
        "topic": "engine",
        "report_interval": REPORT_INTERVAL,
        "created_at": _service_time(record.created_at),
        "updated_at": _service_time(record.updated_at),
        "deleted_at": None,
        "status": "up" if is_up else "down",
        "running": len(doing),
        "actions": [{"id": action.id, "name": action.name, "target": action.stack_id} for action in own],
    }


def _service_time(moment: float) -> str:
    """Format a time as Heat does here: with microseconds and without a zone."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
