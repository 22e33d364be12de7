"""Bodies of updates and deletes at a later time.

Every fault is a 400 that names its place.
"""

from heatlite.api.wire.bodies import moment
from heatlite.api.wire.stack_bodies import Definition, definition
from heatlite.core.json import Json, as_map
from heatlite.core.validation import convert
from heatlite.core.wire.base import Body, Time
from heatlite.engine.state import requests


class ScheduledUpdate(Definition, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The definition, as an update changes it (PATCH), for a later time."""

    plan_digest: str
    """The ``digest`` of the plan of the same definition (see the preview of a change).

    If the plan is another one now or at its time, nothing is done: 409 ``PlanChanged``, or the action ends
    ``CANCELLED``.
    """
    not_before: Time
    """Time of the update (ISO 8601; without a zone UTC). Until then its action is ``INIT`` and holds nothing."""


class ScheduledDelete(Body, frozen=True):
    """The time of a deletion."""

    not_before: Time
    """Time of the deletion (ISO 8601; without a zone UTC). Until then its action is ``INIT`` and holds nothing."""


def update_later(value: Json) -> tuple[requests.StackRequest, float]:
    """Parse the value of `update`: the changes and their time."""
    given = convert(value, ScheduledUpdate, "update")
    return definition(as_map(value), "optional", ScheduledUpdate), moment("update.not_before", given.not_before)


def delete_later(value: Json) -> float:
    """Parse the value of `delete`: its time."""
    return moment("delete.not_before", convert(value, ScheduledDelete, "delete").not_before)
