"""Bodies of operations on the members of groups.

Every fault is a 400 that names its place.
"""

from heatlite.api.bodies import check
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import Json, JsonMap, as_map, as_texts
from heatlite.core.repairs import RepairStep
from heatlite.core.shapes import Shape, closed
from heatlite.engine.state import group_requests

MOST_MEMBERS = 10_000
OPERATIONS = {"REBOOT": RepairStep.REBOOT, "REBUILD": RepairStep.REBUILD, "RECREATE": RepairStep.REPLACE}
"""Operations of `recover`, by Senlin's names."""
_COUNT: JsonMap = {"type": "integer", "minimum": 1, "maximum": MOST_MEMBERS}
_GRACE: JsonMap = {"type": "integer", "minimum": 0, "maximum": 86_400}
_MEMBERS: JsonMap = {
    "type": "array",
    "items": {"type": "string", "minLength": 1},
    "minItems": 1,
    "maxItems": MOST_MEMBERS,
}
_FLAG: JsonMap = {"type": "boolean"}
RESIZE = Shape(
    closed(
        "adjustment_type",
        "number",
        adjustment_type={"enum": [str(one) for one in group_requests.Adjustment]},
        number={"type": "number", "minimum": -1_000_000, "maximum": 1_000_000},
        min_step={"type": ["integer", "null"], "minimum": 0, "maximum": MOST_MEMBERS},
        strict=_FLAG,
    )
)
FOLLOW_TEMPLATE = Shape(closed("follow_template", follow_template=_FLAG))
SCALE_OUT = Shape(closed(count=_COUNT, strict=_FLAG, ignore_cooldown=_FLAG))
SCALE_IN = Shape(
    closed(
        count=_COUNT,
        criteria={"enum": [str(one) for one in group_requests.Criteria]},
        grace_period=_GRACE,
        strict=_FLAG,
        ignore_cooldown=_FLAG,
    )
)
DELETE_MEMBERS = Shape(closed("members", members=_MEMBERS, reduce=_FLAG, grace_period=_GRACE))
REPLACE_MEMBERS = Shape(closed("members", members=_MEMBERS))
RECOVER = Shape(closed(operation={"enum": [*OPERATIONS]}))
CHECK_MEMBERS = Shape(closed(believe_absent=_FLAG))


def resize(value: Json) -> group_requests.SizeRequest:
    """Parse the value of `resize`."""
    given = as_map(value)
    if "follow_template" in given:
        check(FOLLOW_TEMPLATE, value, "resize")
        if given["follow_template"] is not True:
            raise HTTPBadRequest("resize.follow_template: has to be true, or left out.")
        return group_requests.FollowTemplate()
    if not {"min_size", "max_size"}.isdisjoint(given):
        raise HTTPBadRequest("resize: min_size and max_size are the template's. Change them there.")
    check(RESIZE, value, "resize")
    kind, number, step = (
        group_requests.Adjustment(str(given["adjustment_type"])),
        given["number"],
        given.get("min_step"),
    )
    assert isinstance(number, int | float)
    in_percent = kind is group_requests.Adjustment.CHANGE_IN_PERCENTAGE
    if not in_percent and number != int(number):
        raise HTTPBadRequest(f"resize.number: {kind} needs a whole number.")
    if not in_percent and step is not None:
        raise HTTPBadRequest("resize.min_step: only CHANGE_IN_PERCENTAGE has a smallest step.")
    least = step if isinstance(step, int) else None
    return group_requests.Resize(kind, number, least, bool(given.get("strict", True)))


def scale_out(value: Json) -> group_requests.ScaleOut:
    """Parse the value of `scale_out`; null and {} mean one member."""
    given = _optional(SCALE_OUT, value, "scale_out")
    return group_requests.ScaleOut(
        _as_number(given.get("count", 1)), bool(given.get("strict", True)), bool(given.get("ignore_cooldown"))
    )


def scale_in(value: Json) -> group_requests.ScaleIn:
    """Parse the value of `scale_in`; null and {} mean the oldest member."""
    given = _optional(SCALE_IN, value, "scale_in")
    return group_requests.ScaleIn(
        _as_number(given.get("count", 1)),
        group_requests.Criteria(str(given.get("criteria", group_requests.Criteria.OLDEST_FIRST))),
        _as_number(given.get("grace_period", 0)),
        bool(given.get("strict", True)),
        bool(given.get("ignore_cooldown")),
    )


def delete_members(value: Json) -> group_requests.DeleteMembers:
    """Parse the value of `delete_members`."""
    check(DELETE_MEMBERS, value, "delete_members")
    given = as_map(value)
    grace = _as_number(given.get("grace_period", 0))
    return group_requests.DeleteMembers(as_texts(given["members"]), bool(given.get("reduce", True)), grace)


def replace_members(value: Json) -> tuple[str, ...]:
    """Parse the value of `replace_members`: names or physical ids."""
    check(REPLACE_MEMBERS, value, "replace_members")
    return as_texts(as_map(value)["members"])


def recover(value: Json) -> RepairStep:
    """Parse the value of `recover`. null and {} mean RECREATE, as in Senlin."""
    return OPERATIONS[str(_optional(RECOVER, value, "recover").get("operation", "RECREATE"))]


def check_members(value: Json) -> bool:
    """Parse the value of `check` of a resource. Returns `believe_absent`.

    null and {} mean the same.
    """
    return bool(_optional(CHECK_MEMBERS, value, "check").get("believe_absent"))


def _optional(validator: Shape, value: Json, where: str) -> JsonMap:
    """Return the options of an action that needs none.

    null, "" and {} mean the defaults.
    """
    value = {} if value in (None, "") else value
    check(validator, value, where)
    return as_map(value)


def _as_number(value: Json) -> int:
    assert isinstance(value, int)
    return value
