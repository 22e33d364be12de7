"""Repairs by hand: an operator names resources, or repairs all that is marked.

The brakes of the loop are asked, but those that the operator ignores. What is repaired without an incident gets one of
the source `api`, so that it counts in cooldown, rate and failures.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from heatlite.core.actions.repairs import RepairStep, Selection
from heatlite.core.clock import Clock
from heatlite.core.context import Context
from heatlite.core.errors import ActionConflict, InvalidStackState, ResourceNotFound, abbreviated
from heatlite.core.ids import random_id
from heatlite.core.json import JsonMap
from heatlite.core.status import Status, Verb
from heatlite.core.wire.base import Paths
from heatlite.engine.admission.admission import audit
from heatlite.engine.operations.repairs import Repairs
from heatlite.engine.state.conflict_rules import Operation, locked_error
from heatlite.engine.state.requests import ShownPlan
from heatlite.features.healing.loop.examining import ExaminedIncident, claims_of, examined
from heatlite.features.healing.loop.repairing import ChosenMember, held_error, selection_of
from heatlite.features.healing.loop.scene import Scene, needs_mark
from heatlite.features.healing.loop.sweep import HealingLoop
from heatlite.features.healing.loop.tree import SlotPlace
from heatlite.features.healing.reports import API, DRIFT
from heatlite.features.healing.rules.brakes import repair_brakes
from heatlite.features.healing.rules.incident import pending
from heatlite.features.healing.store.records import IncidentRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import BY_CALLER, IGNORABLE, Brake, IncidentState
from heatlite.store.records import StackRecord
from heatlite.store.store import Store

NOTHING_MARKED = "Nothing is marked in stack {}. Name the resources to repair."

Ignorable: TypeAlias = Annotated[Brake, Meta(extra_json_schema={"enum": sorted(IGNORABLE)})]


class HealRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The repair; ``null`` and ``{}`` mean all that is marked."""

    resources: Paths = ()
    """Paths from the stack on, such as ``web/2``; they need no mark. Default: all resources that are marked."""
    step: RepairStep | None = None
    """``replace``, ``rebuild`` or ``reboot``. Default: the first step of the policy's ladder that the type can do."""
    plan_digest: str | None = None
    """Digest of an approved plan. If the plan is another one now, the answer is 409 ``PlanChanged``."""
    ignore: tuple[Ignorable, ...] = ()
    """Brakes that do not hold this repair."""


class HealByHand:
    """Begins repairs for operators."""

    def __init__(self, store: Store, clock: Clock, loop: HealingLoop, repairs: Repairs) -> None:
        self._store = store
        self._rows = store.of(HealingStore)
        self._clock = clock
        self._loop = loop
        self._repairs = repairs

    def heal(self, context: Context, stack: StackRecord, asked: HealRequest, body: JsonMap) -> None:
        """Begin the repair of a tree's resources in one update.

        `body` is the request, for a replay.

        Raises HealingHeld with the brakes that hold it, ResourceNotFound, InvalidStackState if nothing is marked,
        PlanChanged, RepairSpreads, and what refuses the update.
        """
        def attempt(known: ExaminedIncident) -> Sequence[str]:
            with self._repairs.admitted(context, stack, "/actions", body) as root:
                scene = self._scene(root)
                paths = _paths(scene, asked)
                if not paths:
                    raise _nothing(scene)
                opened = [_incident(scene, path) for path in paths if not _incidents_at(scene, path)]
                scene = replace(scene, tree=replace(scene.tree, incidents=[*scene.tree.incidents, *opened]))
                chosen = _chosen(scene, self._steps(scene, paths, asked.step))
                _check_brakes(context, scene, chosen, asked.ignore)
                self._rows.incidents.insert_many(opened)
                action = self._repairs.enqueue(
                    context,
                    root,
                    selection_of(chosen),
                    plan_digest=asked.plan_digest,
                    may_spread=Brake.SPREADS in asked.ignore,
                    claims=claims_of(self._repairs, context, root, selection_of(chosen), known),
                )
                self._loop.repairing.record(scene, chosen, action, f"repaired by {context.user}")
            return paths

        paths = examined(self._repairs, attempt, insists=Brake.QUOTA in asked.ignore)
        told = ",".join(paths), ",".join(sorted(asked.ignore)), context.user
        audit.info("healing stack=%s request=heal resources=%s ignore=%s by=%s", stack.id, *told)

    def brakes(self, scene: Scene, paths: Iterable[str]) -> dict[str, frozenset[Brake]]:
        """Return the brakes that hold the repair of each path alone.

        Not of those that are not there. What a request would find ended demands new evidence.
        """
        found = dict[str, frozenset[Brake]]()
        is_ending = bool(scene.storms) or any(one.open_since is not None for one in scene.tree.scopes.values())
        for path in dict.fromkeys(paths):
            if path in scene.tree.places:
                opened = [] if _incidents_at(scene, path) else [_incident(scene, path)]
                seen = replace(scene, tree=replace(scene.tree, incidents=[*scene.tree.incidents, *opened]))
                chosen = _chosen(seen, {path: _ladder(seen, path)[0]})
                held = {brake for one in chosen for brake in _brakes(seen, one)} | {*_crowded(seen, chosen)}
                found[path] = frozenset(held | {Brake.STALE_EVIDENCE} if is_ending else held)
        return found

    def plan(self, stack: StackRecord, asked: HealRequest) -> ShownPlan:
        """Return the plan of a repair. Asks no brakes.

        Raises ResourceNotFound, InvalidStackState if nothing is marked or the stack is nested.
        """
        if stack.root_id is not None:
            raise InvalidStackState(f"Stack {stack.name} is nested: repair it from its root, {stack.root_id}.")
        now = self._clock.now()
        scene = Scene(self._store, self._loop.tree(stack, now), now, {}, lambda _: (), frozenset())
        paths = _paths(scene, asked)
        if not paths:
            raise _nothing(scene)
        return self._repairs.shown(stack, Selection(self._steps(scene, paths, asked.step)))

    def _steps(self, scene: Scene, paths: Sequence[str], step: RepairStep | None) -> dict[str, RepairStep]:
        """Return the step of each path.

        Without a given one it is the first of the ladder that the types of the member can do.
        """
        if step is not None:
            return dict.fromkeys(paths, step)
        member_of = {path: scene.tree.places[path].slot.member for path in paths}
        ladders = {member: _ladder(scene, path) for path, member in reversed(member_of.items())}
        position = dict.fromkeys(ladders, 0)
        while True:
            steps = {path: ladders[member][position[member]] for path, member in member_of.items()}
            if all(one is RepairStep.REPLACE for one in steps.values()):
                return steps  # each type can
            unable = {member_of[path] for path in self._repairs.plan(scene.tree.root, Selection(steps)).unable}
            going_on = [member for member in unable if position[member] + 1 < len(ladders[member])]
            if not going_on:
                return steps
            for member in going_on:
                position[member] += 1

    def _scene(self, root: StackRecord) -> Scene:
        """Read a tree. Records the ends of repairs that no sweep has seen yet."""
        now = self._clock.now()
        scene = self._loop.scene(root, now)
        worked_on = [one for one in scene.tree.incidents if one.state is IncidentState.REPAIRING]
        for incident in worked_on:
            event = pending(incident, scene.situation(incident), now)
            if event is not None:
                self._loop.apply(scene, incident, event, now)
        scene = self._loop.scene(root, now) if worked_on else scene
        left = next((one for one in scene.tree.incidents if one.state is IncidentState.REPAIRING), None)
        if left is not None:  # maybe a report came, and the next sweep records the end
            raise ActionConflict(f"The repair of {left.path} has not ended yet. Try again later.")
        return scene


def _paths(scene: Scene, asked: HealRequest) -> list[str]:
    """Return the paths to repair, without those below another."""
    places = scene.tree.places
    for path in asked.resources:
        if path not in places:
            raise ResourceNotFound(resource_name=path, stack_name=scene.tree.root.name)
    paths = {*asked.resources}
    if not paths:
        paths = {path for path, place in places.items() if _is_marked(place)}
        paths |= {one.path for one in scene.tree.incidents if needs_mark(one) and one.path in places}
    return sorted(path for path in paths if not any(path.startswith(f"{other}/") for other in paths))


def _nothing(scene: Scene) -> InvalidStackState:
    """Return the refusal of a repair of nothing. It tells what is marked under a lock."""
    name = scene.tree.root.name
    locked = sorted(path for path, place in scene.tree.places.items() if _is_marked(_unlocked(place)))
    if locked:
        text = f"All that is marked in stack {name} is locked: {abbreviated(locked)}. Unlock it first."
        return InvalidStackState(text)
    return InvalidStackState(NOTHING_MARKED.format(name))


def _unlocked(place: SlotPlace) -> SlotPlace:
    state = place.row.state_without_lock
    return replace(place, row=replace(place.row, verb=state.verb, status=state.status))


def _is_marked(place: SlotPlace) -> bool:
    """Return True for a failed check, but of a nested stack: its members decide."""
    return place.nested is None and (place.row.verb, place.row.status) == (Verb.CHECK, Status.FAILED)


def _ladder(scene: Scene, path: str) -> list[RepairStep]:
    return [one.step for one in scene.tree.policy.at(path).ladder]


def _chosen(scene: Scene, steps: Mapping[str, RepairStep]) -> list[ChosenMember]:
    """Return the members to repair. Each path has an incident."""
    by_member: dict[str, list[str]] = {}
    for path in steps:
        by_member.setdefault(scene.tree.places[path].slot.member, []).append(path)
    chosen = []
    for own in by_member.values():
        ladder, wanted = _ladder(scene, own[0]), steps[own[0]]
        incidents = [one for path in own for one in _incidents_at(scene, path)]
        position = ladder.index(wanted) if wanted in ladder else 0
        chosen.append(ChosenMember(tuple(incidents), dict.fromkeys(own, wanted), position))
    return chosen


def _incidents_at(scene: Scene, path: str) -> list[IncidentRecord]:
    """Return the open incidents of a resource and of those below it.

    Not those of drift, which a revert ends.
    """
    faults = [one for one in scene.tree.incidents if one.source != DRIFT]
    return [one for one in faults if one.path == path or one.path.startswith(f"{path}/")]


def _incident(scene: Scene, path: str) -> IncidentRecord:
    """Return a new incident of a resource that no source has reported."""
    place, now = scene.tree.places[path], scene.now
    row, slot = place.row, place.slot
    return IncidentRecord(
        random_id(), scene.tree.root.project, API, scene.tree.root.id, row.stack_id, path, slot.member, slot.scope,
        row.id, row.physical_id or "", IncidentState.MARKED, now, now, evidence_since=now, due=now,
        summary="repaired by hand",
    )  # fmt: skip


def _check_brakes(context: Context, scene: Scene, chosen: Sequence[ChosenMember], ignored: Sequence[Brake]) -> None:
    """Raise HealingHeld with all brakes that hold the members.

    Raises StackLocked for a lock on the path.
    """
    held = {brake for one in chosen for brake in _brakes(scene, one)} | {*_crowded(scene, chosen)}
    held -= {*ignored, *BY_CALLER}
    if Brake.LOCKED in held:
        stacks = [stack for one in chosen for path in one.steps for stack in _stacks(scene.tree.places[path])]
        raise locked_error(Operation.HEAL, next(stack for stack in stacks if stack.locked), context)
    if held:
        raise held_error(frozenset(held), scene.tree.root, [path for one in chosen for path in one.steps])


def _brakes(scene: Scene, chosen: ChosenMember) -> Iterator[Brake]:
    any_time = scene.tree.policy.at(chosen.incidents[0].path).step_at(chosen.position).any_time
    for incident in chosen.incidents:
        place = scene.tree.places.get(incident.path)
        if place is None:
            continue
        for one in repair_brakes(scene.facts(incident, place, any_time), is_approved=True):
            if incident.source != API or one.brake is not Brake.SOURCE_NOT_LISTED:
                yield one.brake


def _crowded(scene: Scene, chosen: Sequence[ChosenMember]) -> Iterator[Brake]:
    """Yield the brakes of scopes that too many members at once would exceed."""
    for scope, wanted in Counter(one.scope for one in chosen).items():
        settings, facts = scene.tree.policy.of_scope(scope), scene.tree.scope_facts(scope, scene.now)
        if facts.under_repair + wanted > max(1, settings.parallel.of(facts.members)):
            yield Brake.PARALLEL
        if sum(begun > scene.now - settings.repairs_per for begun in facts.begun) + wanted > settings.max_repairs:
            yield Brake.RATE


def _stacks(place: SlotPlace) -> tuple[StackRecord, ...]:
    return place.stacks if place.nested is None else (*place.stacks, place.nested)
