"""Bodies of operations on the members of groups.

Every fault is a 400 that names its place.
"""

from typing import Literal

from heatlite.api.bodies import Body
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import Json, as_map
from heatlite.core.repairs import RepairStep
from heatlite.core.validation import convert
from heatlite.engine.state.group_requests import Adjustment, FollowTemplate, Members, Resize, SizeRequest

OPERATIONS = {"REBOOT": RepairStep.REBOOT, "REBUILD": RepairStep.REBUILD, "RECREATE": RepairStep.REPLACE}
"""Operations of `recover`, by Senlin's names."""


class ReplacedMembers(Body, frozen=True):
    """The members to replace."""

    members: Members
    """Names or physical ids of members, each once."""


class RecoverOptions(Body, frozen=True):
    """The repair; ``null`` and ``{}``: the default."""

    operation: Literal["REBOOT", "REBUILD", "RECREATE"] = "RECREATE"
    """``RECREATE``: replace; ``REBUILD``: rebuild in place; ``REBOOT``: restart. The latter only for types that can."""


class MemberCheck(Body, frozen=True):
    """The check; ``null`` and ``{}``: the default."""

    believe_absent: bool = False
    """``true``: mark objects that are not found, even more than half of a service's."""


def resize(value: Json) -> SizeRequest:
    """Parse the value of `resize`."""
    given = as_map(value)
    if "follow_template" in given:
        asked = convert(value, FollowTemplate, "resize")
        if not asked.follow_template:
            raise HTTPBadRequest("resize.follow_template: has to be true, or left out.")
        return asked
    if not {"min_size", "max_size"}.isdisjoint(given):
        raise HTTPBadRequest("resize: min_size and max_size are the template's. Change them there.")
    size = convert(value, Resize, "resize")
    if size.adjustment_type is not Adjustment.CHANGE_IN_PERCENTAGE:
        if not size.number.is_integer():
            raise HTTPBadRequest(f"resize.number: {size.adjustment_type} needs a whole number.")
        if size.min_step is not None:
            raise HTTPBadRequest("resize.min_step: only CHANGE_IN_PERCENTAGE has a smallest step.")
    return size
