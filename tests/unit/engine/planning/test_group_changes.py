"""Members that leave and join: criteria × request → change or refusal."""

from random import Random

import pytest

from heatlite.core.errors import InvalidValue
from heatlite.engine.planning.group_changes import GroupFacts, change_members, named
from heatlite.engine.planning.group_policies import ordered
from heatlite.engine.state.group_requests import (
    Adjustment,
    Criteria,
    DeleteMembers,
    FollowTemplate,
    ResizeRequest,
    ScaleIn,
    ScaleOut,
    SizeRequest,
)
from heatlite.plugin.groups import MemberFacts
from tests.tables import table

OLD, FAILED, OUTDATED, YOUNG = (
    MemberFacts("old", "id-old", 1.0),
    MemberFacts("failed", "id-failed", 2.0, failed=True),
    MemberFacts("outdated", "id-outdated", 3.0, outdated=True),
    MemberFacts("young", "id-young", 4.0),
)
GROUP = GroupFacts("g", (FAILED, OLD, OUTDATED, YOUNG), low=1, high=6, asked=3)


@pytest.mark.parametrize(
    ("criteria", "names"),
    [
        (Criteria.OLDEST_FIRST, "failed old outdated young"),
        (Criteria.YOUNGEST_FIRST, "failed young outdated old"),
        (Criteria.OLDEST_PROFILE_FIRST, "failed outdated old young"),
    ],
)
def test_criteria(criteria: Criteria, names: str) -> None:
    for members in (GROUP.members, GROUP.members[::-1]):
        assert [one.name for one in ordered(members, criteria, Random(1))] == names.split()


def test_random_draws_after_the_failed_ones() -> None:
    drawn = {tuple(one.name for one in ordered(GROUP.members, Criteria.RANDOM, Random(seed))) for seed in range(40)}
    assert len(drawn) == 6
    assert {names[0] for names in drawn} == {"failed"}


EXACT, CHANGE, PERCENT = Adjustment.EXACT_CAPACITY, Adjustment.CHANGE_IN_CAPACITY, Adjustment.CHANGE_IN_PERCENTAGE


@table(
    ("request_", "size"),
    [
        (ResizeRequest(EXACT, 2), 2),
        (ResizeRequest(EXACT, 4), 4),
        (ResizeRequest(EXACT, 9, strict=False), 6),
        (ResizeRequest(EXACT, 0, strict=False), 1),
        (ResizeRequest(CHANGE, 2), 6),
        (ResizeRequest(CHANGE, -3), 1),
        (ResizeRequest(PERCENT, 10), 5),
        (ResizeRequest(PERCENT, -10), 3),
        (ResizeRequest(PERCENT, 49), 5),
        (ResizeRequest(PERCENT, -60), 2),
        (ResizeRequest(PERCENT, 10, min_step=2), 6),
        (ResizeRequest(PERCENT, 0), 4),
        (FollowTemplate(True), 3),
        (ScaleOut(2), 6),
        (ScaleOut(5, strict=False), 6),
        (ScaleIn(3), 1),
        (ScaleIn(9, strict=False), 1),
        (DeleteMembers(("old", "id-young")), 2),
        (DeleteMembers(("old", "young"), reduce=False), 4),
    ],
)
def test_size(request_: SizeRequest, size: int) -> None:
    change = change_members(request_, GROUP, Random(1))
    assert len(GROUP.members) - len(change.leaving) + change.joining == size


@table(
    ("request_", "text"),
    [
        (ResizeRequest(EXACT, 7), "limits are 1 and 6"),
        (ResizeRequest(EXACT, -1), "limits are 1 and 6"),
        (ResizeRequest(PERCENT, 100), "8 members"),
        (ScaleOut(3), "7 members"),
        (ScaleIn(4), "0 members"),
        (DeleteMembers(("old", "young", "failed", "outdated")), "0 members"),
        (DeleteMembers(("x", "old", "y")), "no member x, y"),
        (DeleteMembers(("old", "id-old")), "old of group g is named twice"),
    ],
)
def test_refusals(request_: SizeRequest, text: str) -> None:
    with pytest.raises(InvalidValue, match=text):
        change_members(request_, GROUP, Random(1))


@table(
    ("request_", "leaving", "joining"),
    [
        (ScaleIn(2), ("failed", "old"), 0),
        (ResizeRequest(EXACT, 3), ("failed",), 0),
        (DeleteMembers(("id-young", "old"), reduce=False), ("young", "old"), 2),
    ],
)
def test_who_leaves(request_: SizeRequest, leaving: tuple[str, ...], joining: int) -> None:
    change = change_members(request_, GROUP, Random(1))
    assert (change.leaving, change.joining) == (leaving, joining)


def test_members_are_named_by_name_or_physical_id() -> None:
    assert named(("id-old", "failed"), GROUP) == ("old", "failed")
