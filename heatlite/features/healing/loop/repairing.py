"""Begin repairs: choose and plan each member's step, and enqueue one update.

The update of the root carries all of them.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.actions.repairs import RepairStep, Selection
from heatlite.core.context import Context
from heatlite.core.errors import (
    ActionConflict,
    ActionInProgress,
    Forbidden,
    HeatliteError,
    InsufficientRoom,
    PlanChanged,
    RepairSpreads,
    ResourceIsLocked,
    StackLocked,
)
from heatlite.core.ids import random_id
from heatlite.core.json import JsonMap
from heatlite.core.status import Status, Verb
from heatlite.core.wire.why import WayOut, words
from heatlite.engine.operations.repairs import RepairPlan, Repairs
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.requests import ShownPlan
from heatlite.engine.state.ways_out import on_stack
from heatlite.features.healing.errors import HealingHeld
from heatlite.features.healing.loop.examining import ExaminedIncident, claims_of
from heatlite.features.healing.loop.reverting import held_by_plan, judged
from heatlite.features.healing.loop.scene import Scene
from heatlite.features.healing.reports import DRIFT
from heatlite.features.healing.rules.brakes import Held, repair_brakes
from heatlite.features.healing.rules.incident import (
    OF_PLAN,
    WAITS,
    IncidentEvent,
    Wants,
    held_by,
    look,
    move,
    pending,
    proposed,
    waits_in,
)
from heatlite.features.healing.rules.policy import PolicySettings
from heatlite.features.healing.store.records import IncidentRecord, RepairRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import IGNORABLE, REVERT, Brake, IncidentState, Mode
from heatlite.store.records import ActionRecord, StackRecord
from heatlite.store.store import Store

HEALER = "healing"
"""The requester of actions that the loop begins."""

REPAIR_LOOK = 2.0
"""Seconds between two looks at a repair that runs."""

HOLDS: tuple[tuple[type[HeatliteError], Brake], ...] = (
    (StackLocked, Brake.LOCKED),
    (ActionConflict, Brake.BUSY),
    (ResourceIsLocked, Brake.BUSY),
    (ActionInProgress, Brake.BUSY),
    (InsufficientRoom, Brake.QUOTA),
    (RepairSpreads, Brake.SPREADS),
    (Forbidden, Brake.NO_CREDENTIAL),
)
"""Brakes for the errors with which a repair is refused; all others are restrictions."""


class ChosenMember(Struct, frozen=True):
    """A member that is to be repaired."""

    incidents: tuple[IncidentRecord, ...]
    steps: Mapping[str, RepairStep | None]
    """By path. None: what differs is put back."""
    position: int
    told: str = ""
    """The step, and those that the type cannot do, for the history."""

    @property
    def member(self) -> str:
        """Path of the member."""
        return self.incidents[0].member

    @property
    def scope(self) -> str:
        """Scope of the member."""
        return self.incidents[0].scope


class _Step(Struct, frozen=True):
    """The step of a member, and its plan."""

    chosen: ChosenMember
    plan: RepairPlan
    any_time: bool


class Repairing:
    """Begins repairs of trees."""

    def __init__(self, store: Store, repairs: Repairs) -> None:
        self._store = store
        self._rows = store.of(HealingStore)
        self.repairs = repairs

    def any_time(self, scene: Scene, incident: IncidentRecord) -> bool:
        """Return True if the next step of an incident needs no window."""
        return incident.source != DRIFT and scene.tree.policy.at(incident.path).step_at(incident.step).any_time

    def begin(self, scene: Scene, wanting: Sequence[str], known: ExaminedIncident) -> None:
        """Begin the repairs of incidents in one update, up to each scope's limit.

        Call within the transaction that read the scene, by `examined`. Asks all brakes again. Raises what refuses the
        update.
        """
        chosen: list[ChosenMember] = []
        taken: dict[str, int] = {}
        members = dict.fromkeys(one.member for one in scene.tree.incidents if one.id in wanting)
        for member in members:
            free = [one for one in self._free(scene, member) if one.source != DRIFT]
            for alike in _by_settings(scene, free):
                scope = alike[0].scope
                if taken.get(scope, 0) >= self._room(scene, scope):
                    self._hold(alike, [Held(Brake.PARALLEL)], scene.now)
                    continue
                unsure = next((one for one in alike if scene.needs_opinion(one)), None)
                if unsure is not None:
                    self._ask(scene, unsure)
                    return  # the tree is busy until it is checked
                one = self._choose(scene, member, tuple(alike))
                if one is not None:
                    chosen.append(one)
                    taken[scope] = taken.get(scope, 0) + 1
                    break  # the others of the member wait for its end
        if chosen:
            self._enqueue(scene, chosen, known)
        else:
            self._revert(scene, members, known)

    def _free(self, scene: Scene, member: str) -> list[IncidentRecord]:
        return [one for one in scene.tree.incidents if one.member == member and self._is_free(scene, one)]

    def _revert(self, scene: Scene, members: Iterable[str], known: ExaminedIncident) -> None:
        """Begin the reverts of members in one update, up to each scope's limit.

        Faults come first: a member with one waits for its repair.
        """
        taken: dict[str, int] = {}
        wanted: list[Sequence[IncidentRecord]] = []
        for member in members:
            drifted = [one for one in self._free(scene, member) if one.source == DRIFT]
            for alike in _by_settings(scene, drifted)[:1]:
                scope = alike[0].scope
                if taken.get(scope, 0) >= self._room(scene, scope):
                    self._hold(alike, [Held(Brake.PARALLEL)], scene.now)
                    continue
                taken[scope] = taken.get(scope, 0) + 1
                wanted.append(alike)
        paths = [one.path for alike in wanted for one in alike]
        chosen = [one for alike in wanted if (one := self._chosen_revert(scene, alike, paths, known)) is not None]
        if chosen and known.observed is not None:
            action = known.observed.revert(_healer(scene), selection_of(chosen))
            self.record(scene, chosen, action, "repair begun")

    def _chosen_revert(
        self, scene: Scene, incidents: Sequence[IncidentRecord], paths: Sequence[str], known: ExaminedIncident
    ) -> ChosenMember | None:
        """Return the revert of a member.

        None if its plan showed a brake or waits, which is written then.
        """
        found = judged(scene, known, paths, incidents)
        if found.plan is None or found.held is not None:
            for one in incidents:
                self._rows.incidents.move(held_by_plan(one, found.held or Brake.RESTRICTED, scene.now))
            return None
        if any(one.reason in OF_PLAN for one in incidents):
            self._release(incidents, scene.now)
            return None
        place = scene.place(incidents[0])
        assert place is not None
        held = repair_brakes(scene.facts(incidents[0], place))
        if held:
            self._propose(incidents, found.plan.shown.digest, held, scene.now)
            return None
        return _revert_of(incidents)

    def _ask(self, scene: Scene, incident: IncidentRecord) -> None:
        """Begin the check of a resource before its repair."""
        place = scene.place(incident)
        assert place is not None
        action = self.repairs.check(_healer(scene), place.stacks[-1], place.row.name)
        self._rows.incidents.move(replace(incident, action_id=action.id, due=scene.now + REPAIR_LOOK))

    def _room(self, scene: Scene, scope: str) -> int:
        """Return the number of members of a scope whose repair may begin now."""
        settings, facts = scene.tree.policy.of_scope(scope), scene.tree.scope_facts(scope, scene.now)
        recent = [begun for begun in facts.begun if begun > scene.now - settings.repairs_per]
        parallel = max(1, settings.parallel.of(facts.members)) - facts.under_repair
        return min(parallel, settings.max_repairs - len(recent))

    def _is_free(self, scene: Scene, incident: IncidentRecord) -> bool:
        """Return True if nothing but an approval holds the repair of an incident."""
        place = scene.place(incident)
        if place is None or incident.state not in (waits_in(incident), IncidentState.PROPOSED):
            return False
        if pending(incident, scene.situation(incident), scene.now) is not None:
            return False
        held = repair_brakes(scene.facts(incident, place, self.any_time(scene, incident)))
        return look(incident, held, scene.now)[1] in (Wants.REPAIR, Wants.PROPOSAL)

    def _choose(self, scene: Scene, member: str, incidents: tuple[IncidentRecord, ...]) -> ChosenMember | None:
        """Return the step and the plan of a member.

        None if they showed a brake, which is written then.
        """
        step = self._step(scene, member, incidents)
        if step is None:
            self._hold(incidents, [Held(Brake.NO_STEP)], scene.now)
            return None
        plan = step.plan
        if plan.refused or plan.protected:
            self._hold(incidents, [Held(Brake.RESTRICTED)], scene.now)
            return None
        if any(one.reason in OF_PLAN for one in incidents):
            self._release(incidents, scene.now)
            return None
        place = scene.place(incidents[0])
        assert place is not None
        facts = replace(scene.facts(incidents[0], place, step.any_time), spreads=bool(plan.spreads))
        held = repair_brakes(facts)
        if WAITS.issuperset(one.brake for one in held):
            if not held:
                return step.chosen
            self._propose(incidents, plan.shown.digest, held, scene.now)
        else:
            self._hold(incidents, held, scene.now)  # the step that is left needs a window
        return None

    def _step(self, scene: Scene, member: str, incidents: tuple[IncidentRecord, ...]) -> _Step | None:
        """Return the next step that the types of a member can do; None: no step."""
        paths = self._paths(scene, member, incidents)
        ladder = scene.tree.policy.at(incidents[0].path).ladder
        skipped: list[str] = []
        for at in range(min(max(one.step for one in incidents), len(ladder) - 1), len(ladder)):
            steps = dict.fromkeys(sorted(paths), ladder[at].step)
            plan = self.repairs.plan(scene.tree.root, Selection(steps))
            if not plan.unable:
                cannot = f"; the type cannot {', '.join(skipped)}" if skipped else ""
                chosen = ChosenMember(incidents, steps, at, f": {ladder[at].step}{cannot}")
                return _Step(chosen, plan, ladder[at].any_time)
            skipped.append(ladder[at].step)
        return None

    def _propose(self, incidents: Sequence[IncidentRecord], digest: str, held: Sequence[Held], now: float) -> None:
        for incident in incidents:
            if incident.plan_digest not in (None, digest):
                result = move(incident, IncidentEvent.PLAN_CHANGED, now)
                assert result is not None
                self._rows.incidents.move(result.incident)
            else:
                self._rows.incidents.move(proposed(incident, digest, held, now))

    def _release(self, incidents: Sequence[IncidentRecord], now: float) -> None:
        """Demand new evidence: what the plan of a repair showed holds it no longer."""
        for incident in incidents:
            result = move(incident, IncidentEvent.RELEASED, now, f"released: {incident.reason}")
            assert result is not None
            self._rows.incidents.move(result.incident)

    def _hold(self, incidents: Sequence[IncidentRecord], held: Sequence[Held], now: float) -> None:
        for incident in incidents:
            self._rows.incidents.move(held_by(incident, held, now))

    def _enqueue(
        self,
        scene: Scene,
        chosen: Sequence[ChosenMember],
        known: ExaminedIncident,
        digest: str | None = None,
        reason: str = "repair begun",
    ) -> None:
        """Insert the action of the loop and its repairs, and save the incidents."""
        root, selection = scene.tree.root, selection_of(chosen)
        claims = claims_of(self.repairs, _healer(scene), root, selection, known)
        action = self.repairs.begin(_healer(scene), root, selection, plan_digest=digest, claims=claims)
        self.record(scene, chosen, action, reason)

    def record(self, scene: Scene, chosen: Sequence[ChosenMember], action: ActionRecord, reason: str) -> None:
        """Insert the repairs of an action, and save their incidents.

        Call within the transaction that inserted the action. Raises ActionConflict after a report.
        """
        root, now = scene.tree.root, scene.now
        for one in chosen:
            for incident in one.incidents:
                result = move(incident, IncidentEvent.BY_HAND, now, reason + one.told)
                assert result is not None
                after = replace(result.incident, action_id=action.id, step=one.position, due=now + REPAIR_LOOK)
                if not self._rows.incidents.move(after):
                    raise ActionConflict("A report came while its repair was planned.")
                step = one.steps.get(incident.path, RepairStep.REPLACE)
                self._rows.repairs.insert(
                    RepairRecord(
                        random_id(), incident.id, root.id, one.scope, one.member, incident.path,
                        step or REVERT, one.position, action.id, now,
                    )
                )  # fmt: skip

    def approve(
        self, scene: Scene, incident: IncidentRecord, digest: str, by: str | None, known: ExaminedIncident
    ) -> None:
        """Begin the repair that an incident proposes, as the plan that `by` has approved.

        Call as `begin`.

        Raises HealingHeld with the brakes that hold it, PlanChanged, and what refuses the update.
        """
        place = scene.place(incident)
        if incident.plan_digest != digest or place is None:
            raise PlanChanged(stack_name=scene.tree.root.name)
        event = pending(incident, scene.situation(incident), scene.now)
        if event is not None:
            why = event.replace("_", " ")
            raise ActionConflict(f"Incident {incident.id} proposes no repair any more: {why}.")
        free = [one for one in scene.tree.incidents if (one.member, one.plan_digest) == (incident.member, digest)]
        if incident.source == DRIFT:
            self._approve_revert(scene, incident, free, digest, by, known)
            return
        step = self._step(scene, incident.member, tuple(free))
        if step is None:
            raise PlanChanged(stack_name=scene.tree.root.name)
        held = repair_brakes(scene.facts(incident, place, step.any_time), is_approved=True)
        if held:
            raise held_error(frozenset(one.brake for one in held), scene.tree.root, [incident.path])
        self._enqueue(scene, [step.chosen], known, digest, f"approved by {by}")

    def proposal(self, scene: Scene, incident: IncidentRecord) -> ShownPlan | None:
        """Return the plan that an incident proposes; None if it would be another one now."""
        digest = incident.plan_digest
        alike = [one for one in scene.tree.incidents if (one.member, one.plan_digest) == (incident.member, digest)]
        if not alike:
            return None
        if incident.source == DRIFT:
            found = judged(scene, ExaminedIncident(), [one.path for one in alike], alike)
            shown = None if found.plan is None else found.plan.shown
        else:
            step = self._step(scene, incident.member, tuple(alike))
            shown = None if step is None else step.plan.shown
        return shown if shown is not None and shown.digest == digest else None

    def _approve_revert(
        self,
        scene: Scene,
        incident: IncidentRecord,
        incidents: Sequence[IncidentRecord],
        digest: str,
        by: str | None,
        known: ExaminedIncident,
    ) -> None:
        """Begin the revert that an incident proposes. Raises as `approve`."""
        place = scene.place(incident)
        found = judged(scene, known, [one.path for one in incidents], incidents)
        if found.plan is None or found.held is not None or found.plan.shown.digest != digest or place is None:
            raise PlanChanged(stack_name=scene.tree.root.name)
        held = repair_brakes(scene.facts(incident, place), is_approved=True)
        if held:
            raise held_error(frozenset(one.brake for one in held), scene.tree.root, [incident.path])
        chosen = _revert_of(incidents)
        assert known.observed is not None
        action = known.observed.revert(_healer(scene), selection_of([chosen]), digest)
        self.record(scene, [chosen], action, f"approved by {by}")

    def _paths(self, scene: Scene, member: str, incidents: Sequence[IncidentRecord]) -> set[str]:
        """Return a member's paths to repair: marked rows, without those below another.

        A rule may exempt what has other settings than the incidents. Brakes hold the others that have incidents.
        """
        policy = scene.tree.policy
        settings = policy.at(incidents[0].path)
        paths = {path for path in _marked_below(scene, member) if policy.at(path) == settings}
        paths -= {one.path for one in scene.tree.incidents}
        paths |= {one.path for one in incidents}
        return {path for path in paths if not any(path.startswith(f"{other}/") for other in paths)}

    def hold(self, wanting: Sequence[str], error: HeatliteError, now: float) -> None:
        """Hold incidents whose repair was refused with an error."""
        brake = next((brake for kind, brake in HOLDS if isinstance(error, kind)), Brake.RESTRICTED)
        for incident_id in wanting:
            incident = self._rows.incidents.get(incident_id)
            if incident is not None and incident.state in (waits_in(incident), IncidentState.PROPOSED):
                self._hold([incident], [Held(brake)], now)


def held_error(held: frozenset[Brake], root: StackRecord, paths: Sequence[str]) -> HealingHeld:
    """Return the refusal of a repair that an operator wants.

    It tells how to ignore the brakes, if all can be ignored.
    """
    names = ", ".join(brake for brake in Brake if brake in held)
    way, steps = "then try again", list[WayOut]()
    if held <= IGNORABLE:
        ignored = [brake for brake in Brake if brake in held]
        options = "".join(f" --ignore {brake}" for brake in ignored)
        command = f"heatlite heal{options} {root.name} {words(*paths)}"
        way = f'or ignore it: {command}; in a request: "ignore"'
        body: JsonMap = {"resources": [*paths], "ignore": [*ignored]}
        steps.append(on_stack(root, Operation.HEAL.value, "repairs it nevertheless", command, body))
    shown, s = ", ".join(paths), "" if len(held) > 1 else "s"
    return HealingHeld(brakes=names, s=s, path=shown, way=way, way_out=steps, stack_name=root.name)


def _revert_of(incidents: Sequence[IncidentRecord]) -> ChosenMember:
    return ChosenMember(tuple(incidents), {one.path: None for one in incidents}, 0, f": {REVERT}")


def _healer(scene: Scene) -> Context:
    """Return the context of the actions that the loop begins."""
    return Context(scene.tree.root.project, user=HEALER, roles=frozenset({"member"}))


def selection_of(chosen: Sequence[ChosenMember]) -> Selection:
    """Return the selection of a repair of members."""
    steps = {path: step for one in chosen for path, step in one.steps.items()}
    return Selection(steps, tuple(incident.id for one in chosen for incident in one.incidents))


def _by_settings(scene: Scene, incidents: Sequence[IncidentRecord]) -> list[list[IncidentRecord]]:
    """Group incidents by their settings, first those that need no approval."""
    groups: list[tuple[PolicySettings, list[IncidentRecord]]] = []
    for one in incidents:
        settings = scene.tree.policy.at(one.path)
        alike = next((alike for known, alike in groups if known == settings), None)
        if alike is None:
            groups.append((settings, [one]))
        else:
            alike.append(one)
    return [alike for _, alike in sorted(groups, key=lambda group: group[0].mode is not Mode.AUTO)]


def _marked_below(scene: Scene, member: str) -> set[str]:
    """Return the paths of the marked rows of a member that make no nested stack."""
    return {
        path
        for path, place in scene.tree.places.items()
        if place.slot.member == member
        and place.nested is None
        and (place.row.verb, place.row.status) == (Verb.CHECK, Status.FAILED)
    }
