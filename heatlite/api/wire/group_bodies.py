"""Bodies of operations on the members of groups.

Every fault is a 400 that names its place.
"""

from typing import Literal

from heatlite.core.actions.repairs import RepairStep
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import Json, as_map
from heatlite.core.validation import convert
from heatlite.core.wire.base import Body, Time
from heatlite.engine.state.group_requests import Adjustment, FollowTemplate, Members, NewLimits, ResizeRequest

OPERATIONS = {"REBOOT": RepairStep.REBOOT, "REBUILD": RepairStep.REBUILD, "RECREATE": RepairStep.REPLACE}
"""Operations of `recover`, by Senlin's names."""


class ReplacedMembers(Body, frozen=True):
    """The members to replace."""

    members: Members
    """Names or physical ids of members, each once."""
    not_before: Time | None = None
    """Earliest start (ISO 8601; without a zone UTC): the action is ``INIT`` until then, and admitted like a request."""


class RecoverOptions(Body, frozen=True):
    """The repair; ``null`` and ``{}``: the default."""

    operation: Literal["REBOOT", "REBUILD", "RECREATE"] = "RECREATE"
    """``RECREATE``: replace; ``REBUILD``: rebuild in place; ``REBOOT``: restart. The latter only for types that can."""


class MemberCheck(Body, frozen=True):
    """The check; ``null`` and ``{}``: the default."""

    believe_absent: bool = False
    """``true``: mark objects that are not found, even more than half of a service's."""


def resize(value: Json) -> ResizeRequest | NewLimits | FollowTemplate:
    """Parse the value of `resize`."""
    given = as_map(value)
    if "follow_template" in given:
        asked = convert(value, FollowTemplate, "resize")
        if not asked.follow_template:
            raise HTTPBadRequest("resize.follow_template: has to be true, or left out.")
        return asked
    if given.keys() & {"min_size", "max_size"} and not given.keys() & {"adjustment_type", "number"}:
        limits = convert(value, NewLimits, "resize")
        if limits.min_size is None and limits.max_size is None:
            raise HTTPBadRequest("resize: needs a number for min_size or max_size.")
        return limits
    size = convert(value, ResizeRequest, "resize")
    if size.adjustment_type is not Adjustment.CHANGE_IN_PERCENTAGE:
        if not size.number.is_integer():
            raise HTTPBadRequest(f"resize.number: {size.adjustment_type} needs a whole number.")
        if size.min_step is not None:
            raise HTTPBadRequest("resize.min_step: only CHANGE_IN_PERCENTAGE has a smallest step.")
    return size
