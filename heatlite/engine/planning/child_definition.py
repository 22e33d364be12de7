"""What a nested stack has from its parent: the same for one that is made and for one that is only foreseen."""

from collections.abc import Mapping
from dataclasses import replace

from heatlite.core.errors import ImmutableParameterModified, RequestLimitExceeded
from heatlite.core.ids import new_id
from heatlite.core.status import Status, Verb
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.state.definitions import pseudo_parameters
from heatlite.engine.state.unit_of_work import moved
from heatlite.engine.state.values import Resources, inherited, type_code
from heatlite.plugin.nested import StackResource
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.document import Definition, Template
from heatlite.template.environment import Environment
from heatlite.template.expression import UNKNOWN, Unknown
from heatlite.template.types import TypeCatalog


def becoming(
    parent: StackRecord, row: ResourceRecord, before: StackRecord | None, now: float, deepest: int
) -> StackRecord:
    """The nested stack of a resource as it begins to be made, adopted or, where there is one `before`, updated.

    Without its definition. Raises RequestLimitExceeded where it is deeper than `deepest`.
    """
    if parent.depth >= deepest:
        raise RequestLimitExceeded(message=f"Recursion depth exceeds {deepest}.")
    if before is not None:
        return replace(moved(before, Verb.UPDATE, Status.IN_PROGRESS, "Stack UPDATE started"), updated_at=now)
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
    """Raise ImmutableParameterModified where a parameter has another value that must not."""
    changed = later.parameters.immutable_changes(earlier.parameters)
    if changed:
        raise ImmutableParameterModified(keys=", ".join(changed))


def foreseen(
    definition: Definition,
    resources: Resources,
    row: ResourceRecord,
    wanted: Wanted,
    before: StackRecord | None,
    hide: bool = False,
) -> tuple[StackRecord, Definition]:
    """What a resource's nested stack is to be in the end, and its definition; `before` is the stack as it is.

    Values that are not known may stand in `wanted`; with `hide` those of hidden parameters are not known either.
    Raises what is wrong with it.
    """
    if before is None:
        row = replace(row, properties=wanted.properties, metadata=wanted.metadata)
        resource = resources.make(row, kind=wanted.kind, update_policy=wanted.update_policy)
    else:
        row = replace(row, metadata=wanted.metadata)
        resource = resources.make(row, wanted.properties, wanted.kind, wanted.update_policy)
    assert isinstance(resource, StackResource)
    with type_code():
        goal = resource.goal()
    deepest = resources.types.installation.max_nested_stack_depth
    stack = becoming(resources.stack, row, before, resource.facts.now(), deepest)
    template = Template(goal.template, definition.template.files)
    # What is hidden here is so within, where the same default gives a parameter of that name its value.
    given = definition.environment
    hidden = {name: value for name, value in given.parameters.items() if hide and isinstance(value, Unknown)}
    defaults = {name: value for name, value in hidden.items() if name in given.parameter_defaults}
    environment, facade = inherited(definition, row, wanted.update_policy, {**defaults, **goal.parameters})
    # The name and the id of a stack that is to be made are not known.
    pseudo = {"OS::project_id": stack.project} if before is None else pseudo_parameters(stack)
    bind = blind if hide else Template.bind
    return stack, bind(template, environment, pseudo, types=resources.types, facade=facade)


def blind(
    template: Template,
    environment: Environment,
    pseudo: Mapping[str, str],
    types: TypeCatalog | None,
    facade: Mapping[str, object] | None,
) -> Definition:
    """The template bound as if nobody knew the values of its hidden parameters."""
    unknown = {name: UNKNOWN for name, schema in template.parameters.items() if schema.hidden}
    hiding: dict[str, object] = {**environment.parameters, **unknown}
    environment = replace(environment, parameters=hiding)  # type: ignore[arg-type]  # UNKNOWN is taken there
    return template.definition(environment, pseudo, types=types, facade=facade, stored=True)
