"""Observations of real objects: live properties over the stored ones."""

from typing import TypeAlias, cast

from heatlite.core.errors import HeatliteError
from heatlite.core.json import JsonMap
from heatlite.engine.types.type_calls import type_code
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Schema

Observed: TypeAlias = JsonMap | HeatliteError | None
"""Result of an observation: properties, the error that prevented it, or None: the object is gone."""


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
