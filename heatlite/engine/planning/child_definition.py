"""Definitions of nested stacks, as a walk and a preview derive them."""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from heatlite.core.errors import ImmutableParameterModified, RequestLimitExceeded
from heatlite.core.ids import new_id
from heatlite.core.json import Json
from heatlite.core.status import Status, Verb
from heatlite.engine.planning.collect import replaced_above, with_anew
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.planning.group_members import choose_leaving
from heatlite.engine.state.definitions import pseudo_parameters
from heatlite.engine.state.unit_of_work import with_state
from heatlite.engine.types.resource_factory import ResourceFactory, inherited
from heatlite.engine.types.type_calls import type_code
from heatlite.plugin.nested import StackResource
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.document import Definition, Template
from heatlite.template.environment import Environment, file_of, names_template
from heatlite.template.expression import UNKNOWN, Unknown
from heatlite.template.types import TypeCatalog


def begun_child(
    parent: StackRecord, row: ResourceRecord, before: StackRecord | None, now: float, deepest: int
) -> StackRecord:
    """Return the nested stack at the start of its operation, without a definition.

    `before` is the stack that an update starts from. Raises RequestLimitExceeded for a depth beyond `deepest`.
    """
    if parent.depth >= deepest:
        raise RequestLimitExceeded(message=f"Recursion depth exceeds {deepest}.")
    if before is not None:
        return replace(with_state(before, Verb.UPDATE, Status.IN_PROGRESS, "Stack UPDATE started"), updated_at=now)
    verb = Verb.ADOPT if row.verb is Verb.ADOPT else Verb.CREATE
    return StackRecord(
        id=new_id(),
        name=row.physical_name,
        project=parent.project,
        username=parent.username,
        template_id="",
        environment={},
        verb=verb,
        status=Status.IN_PROGRESS,
        status_reason=f"Stack {verb} started",
        created_at=now,
        parent_id=parent.id,
        root_id=parent.root_id or parent.id,
        timeout_mins=parent.timeout_mins,
        parent_resource=row.name,
        depth=parent.depth + 1,
        sealed=parent.sealed,
    )


def check_immutable(earlier: Definition, later: Definition) -> None:
    """Raise ImmutableParameterModified if an immutable parameter has another value."""
    changed = later.parameters.immutable_changes(earlier.parameters)
    if changed:
        raise ImmutableParameterModified(keys=", ".join(changed))


def made_anew(
    row: ResourceRecord, definition: Definition, chosen: Mapping[str, ResourceRecord], stack: StackRecord
) -> frozenset[str]:
    """Return the types of replaced objects that the nested stack of a row uses.

    Members may be joined to these. `chosen` are the rows of its `stack` that have their object, by name. There are none
    while members join or leave, which replaces nothing above them.
    """
    if not chosen:
        return replaced_above(stack)
    needed = definition.resources[row.name].requires
    used = {chosen[name].id for name in needed if name in chosen}
    own = {definition.resources[name].mapped_type for name in needed} if set(row.uses) - used else set[str]()
    return replaced_above(stack) | own


def follows(row: ResourceRecord, wanted: Wanted) -> bool:
    """Return True if a nested stack gets other values from its parent than it has."""
    return row.metadata != wanted.metadata or bool(wanted.kind.schema.diff(row.properties, wanted.properties))


def child_template(document: Mapping[str, Json], definition: Definition, earlier: Definition | None) -> Template:
    """Return a nested stack's template with the files of its parent's `definition`.

    A step of a group may keep members of its `earlier` definition. Their files are added, since requests have only the
    files of new members.
    """
    files = definition.template.files
    members = document.get("resources")
    kinds = [one.get("type") for one in members.values() if isinstance(one, dict)] if isinstance(members, dict) else []
    if earlier is not None and any(
        isinstance(kind, str) and names_template(kind) and file_of(kind) not in files for kind in kinds
    ):
        files = {**earlier.template.files, **files}
    return Template(document, files)


def planned_child(
    definition: Definition,
    resources: ResourceFactory,
    row: ResourceRecord,
    wanted: Wanted,
    before: StackRecord | None,
    hide: bool = False,
    anew: Collection[str] = (),
) -> tuple[StackRecord, Definition]:
    """Return a resource's nested stack and its definition as they become.

    `before` is the stack as it is. `anew`: see `made_anew`.

    `wanted` may hold UNKNOWN. With `hide` the values of hidden parameters are UNKNOWN, too. Raises errors of the type
    and of the nested template.
    """
    if before is None:
        row = replace(row, properties=wanted.properties, metadata=wanted.metadata)
        resource = resources.make(row, kind=wanted.kind, update_policy=wanted.update_policy)
    else:
        row = replace(row, metadata=wanted.metadata)
        resource = resources.make(row, wanted.properties, wanted.kind, wanted.update_policy)
    assert isinstance(resource, StackResource)
    with type_code():
        choose_leaving(resource)
        goal = resource.goal()
    is_repair = resources.selection is not None and resources.selection.is_repair
    view = resources.nested(before.id) if before is not None and is_repair else None
    if view is not None and not follows(row, wanted):
        goal = replace(goal, template=view.template)
    deepest = resources.types.installation.max_nested_stack_depth
    stack = begun_child(resources.stack, row, before, resource.facts.now(), deepest)
    stack = replace(stack, inherited=with_anew(stack.inherited or {}, anew))
    earlier = None if before is None else resources.definition(before)
    template = child_template(goal.template, definition, earlier)
    # A hidden parameter hides the parameter of the same name within, which gets the same default.
    given = definition.environment
    hidden = {name: value for name, value in given.parameters.items() if hide and isinstance(value, Unknown)}
    defaults = {name: value for name, value in hidden.items() if name in given.parameter_defaults}
    environment, facade = inherited(definition, row, wanted.update_policy, {**defaults, **goal.parameters})
    # The name and the id of a new stack are not known yet.
    pseudo = {"OS::project_id": stack.project} if before is None else pseudo_parameters(stack)
    bind = bind_hiding if hide else Template.bind
    return stack, bind(template, environment, pseudo, types=resources.types, facade=facade)


def bind_hiding(
    template: Template,
    environment: Environment,
    pseudo: Mapping[str, str],
    types: TypeCatalog | None,
    facade: Mapping[str, object] | None,
) -> Definition:
    """Bind the template with UNKNOWN for its hidden parameters."""
    unknown = {name: UNKNOWN for name, schema in template.parameters.items() if schema.hidden}
    hiding: dict[str, object] = {**environment.parameters, **unknown}
    environment = replace(environment, parameters=hiding)  # type: ignore[arg-type]  # UNKNOWN is allowed there
    return template.definition(environment, pseudo, types=types, facade=facade, stored=True)
