"""Groups that get members by a move, or give them up."""

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from heatlite.api.components import Components
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import JsonMap, as_map
from heatlite.engine.operations.redefining.tree import DefinedStack
from heatlite.engine.planning.group_changes import within_limits
from heatlite.engine.planning.group_members import balancing
from heatlite.engine.state.values import current_rows
from heatlite.engine.types.type_calls import type_code
from heatlite.plugin.groups import SizedGroup
from heatlite.store.records import ResourceRecord


class Membership(Struct, frozen=True):
    """A group with other members."""

    group: ResourceRecord
    """Its row, with its new size."""
    stack_id: str
    """Its nested stack."""
    template: JsonMap
    """The new template of that."""


def changed(
    core: Components, user: str, above: DefinedStack, level: DefinedStack, come: Collection[str], gone: Collection[str]
) -> Membership:
    """Return a group after members have come and gone, by their names in it.

    `level` is its nested stack, `above` the stack that has it. Raises InvalidValue for its limits and names,
    HTTPBadRequest for members that a move cannot take.
    """
    row = next(row for row in current_rows(above.rows) if row.name == level.path[-1])
    resource = core.reader.resources_of(above.stack).make(row)
    if not isinstance(resource, SizedGroup):
        raise HTTPBadRequest(f"{above.full(row.name)} keeps its members: nothing joins or leaves it.")
    with type_code():
        facts = core.groups.facts(resource, level.stack, resource.limits)
        size = len(facts.members) + len(come) - len(gone)
        within_limits(size, facts, strict=True)
        if come:
            resource.admit([*come])
        resource.set_size(size, user)
        child = resource.having([*(name for name in resource.definitions if name not in gone), *come])
    waits = [name for name in gone if level.definition.environment.lifecycle_timeout(name) is not None]
    defined = {*as_map(child.template.get("resources"))}
    if balancing(row) is not None:
        text = "a policy keeps its members in the pool of a load balancer: detach that first"
        raise HTTPBadRequest(f"{above.full(row.name)}: {text}.")
    if waits or defined != {*come} | {one.name for one in level.rows} - {*gone}:
        why = "wait for lifecycle hooks" if waits else "have resources beside them"
        raise HTTPBadRequest(f"{above.full(row.name)}: its members {why}. Use heatlite group join and leave.")
    return Membership(replace(row, data=dict(resource.data)), level.stack.id, {**child.template})
