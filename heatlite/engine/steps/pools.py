"""Bring a group's members into pools, and take them out before they go.

It is a part of the member's own step. The row tells where it may be before the pool is asked, so that an attempt that
takes over finds it there. Each call may be repeated.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from msgspec.structs import replace

from heatlite.core.json import JsonMap
from heatlite.core.status import Status, Verb
from heatlite.engine.calls.step_execution import PoolCall, StepExecution
from heatlite.engine.planning.group_members import Place, address_of, asked_place, placed_at, places
from heatlite.engine.planning.plan import Step
from heatlite.engine.steps.row_writer import RowWriter
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.plugin.groups import BY_ADDRESS, LOADBALANCERS
from heatlite.plugin.ports import Change
from heatlite.store.records import ResourceRecord

POOL_MEMBER: Final = "OS::Octavia::PoolMember"

T = TypeVar("T", bound=StepExecution | None)


class PoolSteps:
    """Begins and ends the calls that change pools."""

    def __init__(self, rows: RowWriter, resources: ResourceFactory) -> None:
        self.goes_on = False
        """Go on with a member that its pool does not let go: what is left behind does not matter."""
        self._rows = rows
        self._resources = resources

    def leave(self, step: Step, row: ResourceRecord, then: Callable[[ResourceRecord], T]) -> PoolCall | T:
        """Take a member out of all pools. Then go on with its row."""
        if LOADBALANCERS not in row.data:
            return then(row)
        others = [one for one in self._rows.unit_of_work.named(row.name) if one.id != row.id]
        taken = {place.key for one in others for place in places(one)}  # over, with its address
        found = [one for one in places(row) if one.key not in taken]
        if not found:
            row = placed_at(row, ())
            self._rows.save(row)
            return then(row)
        return self._call(step, row, Verb.DELETE, found[0], partial(self.leave, step, then=then))

    def settle(self, step: Step, row: ResourceRecord, then: Callable[[ResourceRecord], T]) -> PoolCall | T:
        """Bring a member to the place that its group's policy asks for.

        It leaves other places. Then go on with its row.
        """
        if self._resources.stack.parent_id is None:
            return then(row)
        found, asked = places(row), asked_place(row, self._resources)
        again = partial(self.settle, step, then=then)
        if asked is not None and asked.lb_member is None:
            # Another subnet at the same address: the service refuses both.
            in_way = [one for one in found if one.key[:2] == asked.key[:2] and one.spot != asked.spot]
            if in_way:
                return self._call(step, row, Verb.DELETE, in_way[0], again)
            return self._call(step, row, Verb.CREATE, replace(asked, address=""), again)
        if asked is not None and asked not in found:
            return self._call(step, row, Verb.UPDATE, asked, again)
        surplus = [one for one in found if one != asked]
        return self._call(step, row, Verb.DELETE, surplus[0], again) if surplus else then(row)

    def _call(
        self,
        step: Step,
        row: ResourceRecord,
        verb: Verb,
        place: Place,
        then: Callable[[ResourceRecord], StepExecution | None],
    ) -> PoolCall:
        """Return the call that makes, changes or deletes a pool's member."""
        kind = self._resources.type_named(POOL_MEMBER)
        member = replace(
            row, data={BY_ADDRESS: True}, physical_id=place.lb_member, properties=_properties(place), external_id=None
        )
        call = PoolCall(step, row, self._resources.make(member, kind=kind), verb, find_first=True)
        call.place, call.then = place, then
        if verb is Verb.CREATE:
            call.find_place = partial(self._find_place, call)
        elif verb is Verb.UPDATE:
            call.change = Change(frozenset({"weight"}), {}, member.properties)
        return call

    def _find_place(self, call: PoolCall) -> bool:
        """Ask for the member's address, in a thread. Returns False if it is known."""
        if call.place.address:
            return False
        call.place = replace(call.place, address=address_of(call.row, self._resources))
        call.resource.facts.properties = _properties(call.place)
        return True

    def note_progress(self, call: PoolCall) -> bool:
        """Write where a member may soon be.

        Returns True if the pool is asked after the commit.
        """
        found = places(call.row)
        if call.verb is not Verb.CREATE or not call.place.address or any(one.key == call.place.key for one in found):
            return False
        self._save(call, [call.place, *found])
        return True

    def finish(self, call: PoolCall) -> StepExecution | None:
        """Write the end of a call, and go on. A failure leaves the member as it is."""
        if call.failure is not None and not (self.goes_on and call.verb is Verb.DELETE):
            self._rows.record_state(call.row, Verb.UPDATE, Status.FAILED, call.failure.text)
            return None
        others = [one for one in places(call.row) if one.key != call.place.key]
        there = [] if call.verb is Verb.DELETE else [replace(call.place, lb_member=call.resource.physical_id)]
        self._save(call, [*there, *others])
        return call.then(call.row)

    def _save(self, call: PoolCall, found: list[Place]) -> None:
        call.row = placed_at(call.row, found)
        self._rows.save(call.row)
        chosen = self._rows.chosen.get(call.row.name)
        if chosen is not None and chosen.id == call.row.id:
            self._rows.chosen[call.row.name] = call.row


def _properties(place: Place) -> JsonMap:
    """Return a place as the properties of a pool's member."""
    given: JsonMap = {"pool": place.pool, "protocol_port": place.protocol_port, "weight": place.weight}
    given |= {} if place.subnet is None else {"subnet": place.subnet}
    return {**given, "address": place.address} if place.address else given
