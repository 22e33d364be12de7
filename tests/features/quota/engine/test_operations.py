"""Operations that make objects ask for room; the others never do."""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Final

import pytest

from heatlite.core.actions.repairs import RepairStep, Selection
from heatlite.engine.state.group_requests import Adjustment, DetachPolicy, ResizeRequest, ScaleIn, ScaleOut
from heatlite.engine.state.requests import Reach, StackRequest
from heatlite.features.quota.examiner import QuotaExceeded
from heatlite.features.revisions.undoing import Revisions, UndoRequest
from heatlite.store.records import StackRecord
from tests.engine.conftest import resource, template
from tests.engine.test_group_pools import KINDS, PLACED, VERBS, Fleet
from tests.features.quota.engine.test_admission import raise_limit, refused, reserved, shortages
from tests.tables import sampled
from tests.types.conftest import Cloudy

NET: Final = resource("OS::Neutron::Net")
GROUP: Final = resource("OS::Heat::AutoScalingGroup", min_size=0, max_size=9, desired_capacity=1, resource=NET)
BASICS: Final = {"group": GROUP, "net": NET}
MORE: Final = {**BASICS, "more": NET}


class Scene:
    """A stack with a network, and with another one in a group."""

    def __init__(self, cloudy: Cloudy) -> None:
        self.cloudy = cloudy
        self.core = cloudy.components
        self.stack = cloudy.made(MORE)
        self.snapshot = self.core.snapshots.take(cloudy.who, cloudy.get(self.stack), "before").id
        self.stack = cloudy.settle(cloudy.get(self.stack))
        self.stack = cloudy.changed(self.stack, BASICS)

    @property
    def now(self) -> StackRecord:
        return self.cloudy.get(self.stack)

    def create(self) -> None:
        self.cloudy.stacks.create(self.cloudy.who, StackRequest(name="new", template=template(net=NET)))

    def update(self) -> None:
        self.cloudy.stacks.update(self.cloudy.who, self.now, StackRequest(template=template(**MORE)), existing=True)

    def converge(self) -> None:
        self.cloudy.stacks.update(
            self.cloudy.who, self.now, StackRequest(template=template(**MORE), converge=True), existing=True
        )

    def replace(self) -> None:
        request = StackRequest(reach=Reach(replace=("net",)))
        self.cloudy.stacks.update(self.cloudy.who, self.now, request, existing=True)

    def replace_marked(self) -> None:
        self.cloudy.stacks.update(self.cloudy.who, self.now, StackRequest(), existing=True)

    def undo(self) -> None:
        Revisions(self.core).undo(self.cloudy.who, self.now, UndoRequest(), {})

    def restore(self) -> None:
        self.core.snapshots.restore(self.cloudy.who, self.now, self.snapshot)

    def scale_out(self) -> None:
        self.core.groups.change(self.cloudy.who, self.now, "group", ScaleOut(1, ignore_cooldown=True))

    def resize(self) -> None:
        request = ResizeRequest(Adjustment.EXACT_CAPACITY, 2)
        self.core.groups.change(self.cloudy.who, self.now, "group", request)

    def replace_member(self) -> None:
        (nested,) = self.cloudy.store.stacks.descendants(self.now)
        (member,) = [row.name for row in self.cloudy.rows(nested)]
        self.core.groups.replace_members(self.cloudy.who, self.now, "group", [member])

    def heal(self) -> None:
        asked = Selection({"net": RepairStep.REPLACE})
        self.core.repairs.request(self.cloudy.who, self.now, asked, "/actions", {})

    def recover(self) -> None:
        self.core.groups.recover(self.cloudy.who, self.now, "net", RepairStep.REPLACE, {})


OPERATIONS: Final[Mapping[str, Callable[[Scene], None]]] = {
    name: made for name, made in vars(Scene).items() if callable(made) and not name.startswith("_")
}
MARKED: Final = frozenset({"replace_marked", "heal", "recover"})
REPLACING: Final = MARKED | {"replace", "replace_member"}
"""Operations after which there is as much as before."""


def networks(cloudy: Cloudy) -> int:
    return cloudy.count("network.network") - 1  # the external one is of another project


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(OPERATIONS, 4))
def test_an_operation_needs_room(cloudy: Cloudy, name: str) -> None:
    """Laws 3.1, 3.2, 3.4, 3.6. A replacement needs one more for a while, too."""
    scene = Scene(cloudy)
    if name in MARKED:
        cloudy.mark(scene.stack, "net")
    raise_limit(cloudy, network=2)
    known = actions(cloudy)
    assert refused(cloudy, lambda: OPERATIONS[name](scene)) == {"network.network": (2, 2, 0, 1, 1)}
    assert actions(cloudy) == known
    raise_limit(cloudy, network=3)
    OPERATIONS[name](scene)
    cloudy.wait_for(lambda: not any(cloudy.store.actions.count_live().values()))
    assert (networks(cloudy), reserved(cloudy)) == (2 if name in REPLACING else 3, 0)
    assert cloudy.get(scene.stack).status == "COMPLETE", cloudy.why(scene.now)


ENTERING: Final = {
    "scale_out": 2, "resize": 2, "update to more": 2, "delete_members and refill": 1, "replace_members": 1,
    "update of the definition": 3, "recover": 1, "update of a marked one": 1,
}  # fmt: skip
"""By verb, how many of three members of a group enter a pool."""


ENTRIES: Final = [
    (verb, kind) for verb, kind in product(ENTERING, KINDS)
    if kind == "server" or verb != "update of the definition"  # which changes the others in place
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "kind"), sampled(ENTRIES, 5))
def test_members_that_enter_a_pool_count(cloudy: Cloudy, verb: str, kind: str) -> None:
    fleet, needed = Fleet(cloudy, kind), ENTERING[verb]
    raise_limit(cloudy, "load_balancer", member=3)
    with pytest.raises(QuotaExceeded) as found:
        VERBS[verb](fleet)
    assert shortages(found.value) == {"load_balancer.member": (3, 3, 0, needed, needed)}
    raise_limit(cloudy, "load_balancer", member=3 + needed)
    VERBS[verb](fleet)
    fleet.require_law()


@pytest.mark.slow
def test_what_needs_nothing_is_never_refused(cloudy: Cloudy) -> None:
    """Law 3.5: a project may be above its limit."""
    scene = Scene(cloudy)
    raise_limit(cloudy, network=0)
    stack = cloudy.resume(cloudy.suspend(cloudy.check(scene.stack)))
    scene.core.snapshots.take(cloudy.who, cloudy.get(stack), "later")
    stack = cloudy.changed(cloudy.settle(cloudy.get(stack)), {**BASICS, "net": resource("OS::Neutron::Net", name="b")})
    scene.core.groups.change(cloudy.who, cloudy.get(stack), "group", ScaleIn(1, ignore_cooldown=True))
    cloudy.wait_for(lambda: not any(cloudy.store.actions.count_live().values()))
    stack = cloudy.changed(stack, {"group": GROUP})
    assert networks(cloudy) == 0
    assert cloudy.delete(stack).status == "COMPLETE"


def actions(cloudy: Cloudy) -> object:
    return cloudy.store.database.read("SELECT COUNT(*) FROM action")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_members_that_a_policy_brings_into_a_pool_count(cloudy: Cloudy, kind: str) -> None:
    fleet = Fleet(cloudy, kind)
    fleet.ask(DetachPolicy(PLACED.name))
    raise_limit(cloudy, "load_balancer", member=2)
    with pytest.raises(QuotaExceeded) as found:
        fleet.ask(PLACED)
    assert shortages(found.value) == {"load_balancer.member": (2, 0, 0, 3, 1)}
    raise_limit(cloudy, "load_balancer", member=3)
    fleet.ask(PLACED)
    fleet.require_law()
