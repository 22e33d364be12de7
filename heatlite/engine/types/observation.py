"""Observations of real objects: live properties over the stored ones."""

from collections.abc import Iterable
from typing import TypeAlias, cast

from heatlite.core.actions.repairs import Selection
from heatlite.core.errors import HeatliteError
from heatlite.core.json import JsonMap
from heatlite.core.status import Status, Verb
from heatlite.engine.types.type_calls import type_code
from heatlite.plugin.resource import Resource, ResourceType
from heatlite.plugin.schema import Schema
from heatlite.store.records import ResourceRecord

Observed: TypeAlias = JsonMap | HeatliteError | None
"""Result of an observation: properties, the error that prevented it, or None: the object is gone."""


def observable(rows: Iterable[ResourceRecord], selection: Selection | None) -> list[ResourceRecord]:
    """Return the rows of which an update observes the objects.

    Also those that an earlier attempt has begun to update: their objects may be as before. A repair observes those that
    it reverts, also where an earlier one has failed with them.
    """
    made = [row for row in rows if row.verb not in (Verb.INIT, Verb.DELETE)]
    if selection is None or not selection.is_repair:
        begun = Verb.UPDATE, Status.IN_PROGRESS
        made = [row for row in made if selection is None or not selection.leaves(row.name)]
        return [row for row in made if row.status is Status.COMPLETE or (row.verb, row.status) == begun]
    chosen = [row for row in made if selection.reverts(row.name)]
    return [row for row in chosen if row.status is Status.COMPLETE or row.verb is Verb.UPDATE]


def is_compared(row: ResourceRecord, kind: ResourceType) -> bool:
    """Return True if a check compares a row of a type with its object.

    It only looks at an external one.
    """
    return row.external_id is None and kind.has("live_properties")


def live_values(resource: Resource[Schema]) -> JsonMap | None:
    """Return the stored properties, overlaid with those of the object.

    None: the object is gone.
    """
    live = resource.live_properties()
    if live is None:
        return None
    return cast(JsonMap, resource.schema.examine({**resource.facts.properties, **live})[0])


def observe(resource: Resource[Schema]) -> Observed:
    """Return the live properties of a resource's object. Raises nothing."""
    try:
        with type_code():
            return live_values(resource)
    except HeatliteError as error:
        return error
