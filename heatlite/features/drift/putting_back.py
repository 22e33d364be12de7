"""Prediction, from rows alone, whether drift can be put back in place."""

from msgspec import UNSET
from msgspec.structs import replace

from heatlite.core.errors import HeatliteError
from heatlite.core.json import JsonMap
from heatlite.engine.planning.collect import collect
from heatlite.engine.planning.decide import choose
from heatlite.engine.planning.facts import Involvement, Wanted
from heatlite.engine.planning.plan import Outcome
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.features.drift.states import DriftRecord
from heatlite.store.records import ResourceRecord
from heatlite.template.document import Definition


def is_in_place(resources: ResourceFactory, definition: Definition, row: ResourceRecord, drift: DriftRecord) -> bool:
    """Return whether an update of the object leads back to its stored properties.

    False if that needs another object, or is forbidden (`restricted_actions`).
    """
    row = replace(row, requires=())  # none of those has changed
    replacement, forbidden = definition.environment.replacement(row.name), definition.environment.restricted_actions
    wanted = Wanted(resources.type_of(row), row.properties, row.metadata, {}, replacement, definition)
    try:
        facts = replace(
            collect(row, wanted, resources, {}), observed=_live(row, drift), involvement=Involvement.REVERTED
        )
        return choose([facts], forbidden(row.name), frozenset()).outcome is Outcome.UPDATE
    except HeatliteError:
        return False


def _live(row: ResourceRecord, drift: DriftRecord) -> JsonMap:
    """Return the properties of the object, without those that differ in a part."""
    live = dict(row.properties)
    for one in drift.differences or ():
        name, *parts = one.path.removeprefix("/").split("/")
        if parts:
            live.pop(name, None)
        elif not one.ignored:
            live[name] = None if one.live is UNSET else one.live
    return live
