"""Operations of operators: policies, acknowledgements, decisions about incidents."""


from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.actions.decisions import DecisionStep
from heatlite.core.clock import Clock
from heatlite.core.context import Context
from heatlite.core.errors import (
    ActionConflict,
    ActionInProgress,
    EntityNotFound,
    HTTPBadRequest,
    InvalidStackState,
    StackNotFound,
)
from heatlite.core.json import JsonMap
from heatlite.core.status import Verb
from heatlite.engine.admission.admission import audit
from heatlite.engine.admission.offered_types import check_types
from heatlite.engine.state.conflict_rules import Operation, locked_error
from heatlite.features.healing.errors import PolicyChanged
from heatlite.features.healing.loop.examining import ExaminedIncident, examined
from heatlite.features.healing.loop.scene import Scene
from heatlite.features.healing.loop.sweep import HealingLoop
from heatlite.features.healing.rules.brakes import ScopeFacts, repair_cooldown_until
from heatlite.features.healing.rules.incident import IncidentEvent
from heatlite.features.healing.rules.policy import PolicySettings, check_policy
from heatlite.features.healing.rules.windows import next_start, opened_at
from heatlite.features.healing.store.incidents import decision_of
from heatlite.features.healing.store.records import (
    HealingPolicyRecord,
    HealingScopeRecord,
    IncidentRecord,
    ObservationRecord,
)
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import IncidentState
from heatlite.store.records import StackRecord
from heatlite.store.store import Store

MAX_ALERTS = 1000
"""Alerts that an answer shows of an incident."""


class ScopeView(Struct, frozen=True):
    """A scope of a tree as operators see it."""

    scope: str
    facts: ScopeFacts
    settings: PolicySettings
    record: HealingScopeRecord
    cooldown_until: float | None
    next_window: float | None
    """Next opening; None: there are no windows, or one is open."""
    recent: int
    """Repairs begun in the period of `max_repairs`."""


class HealingOverview(Struct, frozen=True):
    """The healing of a tree: its policy, scopes and open incidents."""

    policy: HealingPolicyRecord | None
    scopes: tuple[ScopeView, ...]
    incidents: tuple[IncidentRecord, ...]


class HealingOperations:
    """Reads and changes what the loop works with."""

    def __init__(self, store: Store, clock: Clock, loop: HealingLoop) -> None:
        self._store = store
        self._rows = store.of(HealingStore)
        self._clock = clock
        self._loop = loop

    # -- policies ----------------------------------------------------------------------------------------

    def overview(self, stack: StackRecord) -> HealingOverview:
        """Return the healing of a tree. Raises HTTPBadRequest for a nested stack."""
        _require_root(stack)
        tree, now = self._loop.tree(stack, self._clock.now()), self._clock.now()
        scopes = []
        for scope in sorted({*(one.scope for one in tree.incidents), *tree.scopes, *tree.members}):
            facts, settings = tree.scope_facts(scope, now), tree.policy.of_scope(scope)
            record = tree.scopes.get(scope, HealingScopeRecord(stack.id, scope))
            cooled, is_open = repair_cooldown_until(facts, settings), opened_at(settings.windows, now) is not None
            cooled = cooled if cooled is not None and cooled > now else None
            opens = None if is_open else next_start(settings.windows, now)
            recent = sum(begun > now - settings.repairs_per for begun in facts.begun)
            scopes.append(ScopeView(scope, facts, settings, record, cooled, opens, recent))
        return HealingOverview(self._rows.policies.get(stack.id), tuple(scopes), tuple(tree.incidents))

    def put_policy(self, context: Context, stack: StackRecord, document: JsonMap) -> None:
        """Store the policy of a root stack.

        Its incidents need new evidence before they are repaired.

        A `version` in the document must be the stored one. Raises HTTPBadRequest with all faults of the document or
        for a nested stack, Forbidden for a caller who may not repair the stack, PolicyChanged, StackNotFound.
        """
        _require_root(stack)
        given = document.get("version")
        document = {name: value for name, value in document.items() if name != "version"}
        check_policy(document)
        if given is not None and (isinstance(given, bool) or not isinstance(given, int)):
            raise HTTPBadRequest(f"version is a number, not {given!r}.")
        now = self._clock.now()
        with self._store.transaction():
            stack = self._locked(stack)
            check_types(context, self._store.resources.types(stack.id))
            before = self._rows.policies.get(stack.id)
            version = 0 if before is None else before.version
            if given is not None and given != version:
                raise PolicyChanged(stack_name=stack.name, version=version, given=given)
            self._rows.policies.put(HealingPolicyRecord(stack.id, document, version + 1, context.user, now))
            self._rows.incidents.demand_evidence(now, root_id=stack.id)
        audit.info("healing stack=%s request=put_policy version=%s by=%s", stack.id, version + 1, context.user)

    def delete_policy(self, context: Context, stack: StackRecord) -> None:
        """Remove the policy of a root stack, which has the defaults then.

        Raises EntityNotFound without one.
        """
        _require_root(stack)
        with self._store.transaction():
            stack = self._locked(stack)
            if not self._rows.policies.delete(stack.id):
                raise EntityNotFound(entity="Healing policy", name=stack.name)
            self._rows.incidents.demand_evidence(self._clock.now(), root_id=stack.id)
        audit.info("healing stack=%s request=delete_policy by=%s", stack.id, context.user)

    def acknowledge(self, context: Context, stack: StackRecord, scope: str) -> None:
        """End the suspension of a scope, and forget its failures.

        After a suspension the incidents need new evidence. Raises EntityNotFound.
        """
        _require_root(stack)
        with self._store.transaction():
            stack = self._locked(stack)
            record = self._rows.scopes.of_root(stack.id).get(scope)
            if record is None:
                raise EntityNotFound(
                    f"Scope {scope} of stack {stack.name} is not suspended: there is nothing to acknowledge."
                )
            self._rows.scopes.save(replace(record, is_suspended=False, failures=0))
            if record.is_suspended:
                self._rows.incidents.demand_evidence(self._clock.now(), root_id=stack.id)
        audit.info("healing stack=%s request=acknowledge scope=%s by=%s", stack.id, scope, context.user)

    def _locked(self, stack: StackRecord) -> StackRecord:
        held = self._store.stacks.lock(stack.id)
        if held is None or held.deleted_at is not None or held.verb is Verb.DELETE:
            raise StackNotFound(name=stack.name)
        return held

    # -- incidents ---------------------------------------------------------------------------------------

    def incident(self, project: str, incident_id: str) -> IncidentRecord:
        """Return an incident of a project. Raises EntityNotFound."""
        found = self._rows.incidents.get(incident_id)
        if found is None or found.project != project:
            raise EntityNotFound(entity="Incident", name=incident_id)
        return found

    def alerts(self, incident_id: str) -> list[ObservationRecord]:
        """Return the newest episodes of an incident, earliest first."""
        return self._rows.observations.of_incident(incident_id, MAX_ALERTS)

    def close(self, context: Context, incident_id: str, reason: str) -> None:
        """Close an incident, remove its mark, and mute its keys until they resolve once.

        Raises EntityNotFound, ActionInProgress while the tree is busy, StackLocked, InvalidStackState if it is closed,
        ActionConflict if the end of its repair or a report comes at the same time.
        """
        now = self._clock.now()
        with self._store.transaction():
            incident, scene = self._open(context, incident_id, now)
            place = None if scene is None else scene.place(incident)
            if scene is not None and place is not None:
                if scene.is_busy(place):
                    raise ActionInProgress(stack_name=scene.tree.root.name, action=scene.tree.root.verb)
                if incident.is_marked and scene.is_locked(place):
                    held = next((one for one in place.stacks if one.locked), scene.tree.root)
                    raise locked_error(Operation.MARK, held, context)
            if incident.state is IncidentState.PROPOSED:
                self._store.listeners.decided(decision_of(DecisionStep.REJECTED, incident, context))
            told = f"closed by {context.user}: {reason}" if reason else f"closed by {context.user}"
            self._loop.apply(scene, incident, IncidentEvent.CLEARED, now, told)
            left = self.incident(context.project, incident_id)
            if left.state is not IncidentState.CLOSED:
                raise ActionConflict(f"Incident {left.id} is {left.state}, and something happens to it: try again.")
            if scene is not None:
                self._loop.judge_after_closing(scene, now)
        audit.info("healing incident=%s request=close by=%s reason=%s", incident_id, context.user, reason)

    def approve(self, context: Context, incident_id: str, plan_digest: str) -> None:
        """Begin the repair that an incident proposes.

        All brakes but those that wait for it are asked again.

        Raises EntityNotFound, Forbidden for a caller who may not repair the stack, InvalidStackState if nothing is
        proposed, PlanChanged, HealingHeld, and what refuses the update.
        """
        now = self._clock.now()

        def attempt(known: ExaminedIncident) -> None:
            with self._store.transaction():
                incident, scene = self._open(context, incident_id, now)
                check_types(context, self._store.resources.types(incident.root_id))
                if incident.state is not IncidentState.PROPOSED or scene is None:
                    raise InvalidStackState(f"Incident {incident.id} is {incident.state}: it proposes no repair.")
                self._store.listeners.decided(decision_of(DecisionStep.APPROVED, incident, context))
                self._loop.repairing.approve(scene, incident, plan_digest, context.user, known)

        examined(self._loop.repairing.repairs, attempt)
        audit.info("healing incident=%s request=approve digest=%s by=%s", incident_id, plan_digest, context.user)

    def _open(self, context: Context, incident_id: str, now: float) -> tuple[IncidentRecord, Scene | None]:
        """Lock the root of an open incident, and read it with its tree."""
        root = self._store.stacks.lock(self.incident(context.project, incident_id).root_id)
        scene = None if root is None or root.deleted_at is not None else self._loop.scene(root, now)
        incident = self.incident(context.project, incident_id)
        if incident.state is IncidentState.CLOSED:
            raise InvalidStackState(f"Incident {incident.id} is closed already, as {incident.closed_as}.")
        return incident, scene


def _require_root(stack: StackRecord) -> None:
    if stack.root_id is not None:
        raise HTTPBadRequest(f"Stack {stack.name} is nested: its root has the healing policy, stack {stack.root_id}.")
