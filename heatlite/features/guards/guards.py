"""The part of guards in updates, and in the reports of monitoring systems."""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import UNSET, convert, to_builtins

from heatlite.api.components import Components
from heatlite.core.actions.payloads import BakeEnd
from heatlite.core.context import Context
from heatlite.core.errors import Forbidden, HTTPBadRequest
from heatlite.core.json import AnyMap, JsonMap
from heatlite.core.status import ENDED_ACTIONS, Control
from heatlite.core.validation import convert as checked
from heatlite.core.wire.guards import ANY, GuardRequest, SilenceMode
from heatlite.feature import is_active
from heatlite.features.guards.bodies import GuardKeys, matches
from heatlite.features.guards.errors import GuardFiring
from heatlite.features.guards.store.records import FiredAlert, GuardRecord, StandingAlert
from heatlite.features.guards.store.store import GuardStore
from heatlite.features.guards.wire import view
from heatlite.store.records import ActionRecord, StackRecord

if TYPE_CHECKING:
    from heatlite.features.healing.reports import Delivered, SeenReport

HEALING = "healing"
"""The feature that takes reports."""
FIRING, BLIND = "firing", "blind"
"""Words of reports."""


class Guards:
    """Guards of updates. Get it by `Components.of`."""

    def __init__(self, core: Components) -> None:
        self._core = core
        self._store = core.store
        self._rows = core.store.of(GuardStore)
        self._clock = core.clock
        self._hears = is_active(core.settings, HEALING)
        self._has_policies = is_active(core.settings, "change_policy")

    # -- updates -----------------------------------------------------------------------------------

    def asked(self, context: Context, stack: StackRecord | None, further: JsonMap) -> AnyMap | None:
        """Return the guard of an update as its inputs show it; None: it has none.

        One that the request does not name is that of the change policy. Raises HTTPBadRequest, and Forbidden for a
        looser one by a caller who may not loosen change policies.
        """
        given = checked(further, GuardKeys).guard
        if given is not None and stack is None:
            raise HTTPBadRequest("guard is valid for an update only.")
        if given is True:
            raise HTTPBadRequest("guard: an object with bake, or false.")
        if stack is None:
            return None
        guard = self._of_policy(stack)
        if given is not None and guard is not None:
            _check_strictness(context, stack, given, guard)
        if isinstance(given, GuardRequest):
            self._check_heard(given)
            guard = given
        if guard is None or given is False:
            return None
        self._check_sources(context.project, guard)
        document: AnyMap = to_builtins(guard)
        return document

    def _check_heard(self, guard: GuardRequest) -> None:
        """Raise HTTPBadRequest for a guard that waits for reports where none can come."""
        if not self._hears and guard != GuardRequest(guard.bake, unknown=SilenceMode.PASS):
            raise HTTPBadRequest(
                "guard: the feature healing is off, so no alert can be heard. Leave it at bake, with unknown: pass."
            )

    def _of_policy(self, stack: StackRecord) -> GuardRequest | None:
        """Return the guard of updates that bring none."""
        if not self._has_policies:
            return None
        from heatlite.features.change_policy.effective import effective

        return effective(self._store, self._core.settings, stack.project, stack.root_id or stack.id).guard

    def _check_sources(self, project: str, guard: GuardRequest) -> None:
        named = [one for one in guard.sources if one != ANY]
        if not self._hears or not named:
            return
        from heatlite.features.healing.reports import has_source

        unknown = [one for one in named if not has_source(self._core, project, one)]
        if unknown:
            raise HTTPBadRequest(f"guard.sources: there is no source {', '.join(unknown)}.")

    def begin(self, action: ActionRecord) -> None:
        """Add the row of a guard. Raises GuardFiring."""
        record = GuardRecord(action.id, action.project, action.root_id, action.inputs.guard or {})
        for one in self._rows.standing(action.project, self._clock.now()):
            if _counts(record, one.source, one.given, one.root_id):
                raise GuardFiring(one, self._store.stacks.name_of(action.root_id) or "")
        self._rows.insert(record)

    def verdict(self, action: ActionRecord, since: float) -> BakeEnd | None:
        """Return how a bake ends whose time is over; None: no source was heard yet."""
        record, guard = self._rows.get(action.id), convert(action.inputs.guard, GuardRequest)
        heard = frozenset(() if record is None else record.heard)
        if heard and {*guard.sources} - {ANY} <= heard:
            return BakeEnd.PASSED
        return BakeEnd.UNKNOWN if guard.unknown is SilenceMode.PASS else None

    def bake(self, action_id: str, until: float) -> None:
        """Note until when an update bakes."""
        self._rows.bake(action_id, until)

    def close(self, action_id: str) -> None:
        """Note that nothing takes the update back any more."""
        self._rows.close(action_id)

    def fired(self, action_id: str) -> str:
        """Return why the guard has taken an update back; empty: it has not."""
        record = self._rows.get(action_id)
        if record is None or record.fired is None:
            return ""
        return f"The guard has taken the update back: {record.fired.source} reported {record.fired.summary}"

    def shown(self, action_ids: Collection[str]) -> Mapping[str, JsonMap]:
        """Return further keys of the guards of actions."""
        found = {one.action_id: one for one in self._rows.of([*action_ids])}
        return {
            key: {"heard": [*one.heard], "fired": None if one.fired is None else to_builtins(view(one.fired))}
            for key, one in found.items()
        }

    # -- reports -----------------------------------------------------------------------------------

    def reported(self, delivered: "Delivered") -> None:
        """Note which alerts stand, and take updates back.

        Part of the transaction that takes the reports.
        """
        self._note(delivered)
        is_heard = any(one.word != BLIND for one in delivered.reports)
        for record in self._rows.open(delivered.project):
            fired = next(_fired(record, delivered), None)
            if fired is not None:
                self._fire(record, fired)
            elif is_heard and record.bakes_until is not None and delivered.source not in record.heard:
                self._rows.hear(record.action_id, delivered.source)

    def _note(self, delivered: "Delivered") -> None:
        project, source = delivered.project, delivered.source
        until = delivered.received_at + delivered.ttl
        counted = [one for one in delivered.reports if not one.is_ignored]
        stands = {
            one.key: StandingAlert.of(project, source, one.key, until, one.summary, one.given, one.root_id)
            for one in counted
            if one.word == FIRING
        }
        prefixes = [one.key for one in counted if one.is_prefix]
        if delivered.lists_all is not None:
            prefixes.append(delivered.lists_all)
        over = [one.key for one in counted if one.word != BLIND]
        self._rows.note(project, source, over, prefixes, [*stands.values()])

    def _fire(self, record: GuardRecord, fired: FiredAlert) -> None:
        """Ask for the rollback of an update, once."""
        action = self._store.actions.lock(record.action_id)  # lock order: before its guard
        if action is None or action.status in ENDED_ACTIONS or not self._rows.fire(record.action_id, fired):
            return
        self._store.controls.signal(record.action_id, Control.CANCEL_ROLLBACK, self._clock.now())


def _check_strictness(context: Context, stack: StackRecord, given: GuardRequest | bool, policy: GuardRequest) -> None:
    """Raise Forbidden for a guard that is looser than the policy's.

    Callers may have it who may loosen change policies.
    """
    from heatlite.features.change_policy.effective import PUT

    looser = given.looser_than(policy) if isinstance(given, GuardRequest) else ["guard: false switches it off"]
    if looser and not context.may(PUT):
        raise Forbidden(
            f"The change policy of stack {stack.name} has a guard, and this one is looser: {', '.join(looser)}. Leave"
            f" guard out, or ask somebody with the right {PUT}."
        )


def _fired(record: GuardRecord, delivered: "Delivered") -> Iterator[FiredAlert]:
    """Yield the alerts of a request that a guard looks for."""
    for one in delivered.reports:
        if _is_alert(one) and _counts(record, delivered.source, one.given, one.root_id):
            yield FiredAlert(delivered.source, one.key, one.summary, delivered.received_at)


def _is_alert(report: "SeenReport") -> bool:
    return report.word == FIRING and not report.is_ignored


def _counts(record: GuardRecord, source: str, given: Mapping[str, Mapping[str, str]], root_id: str | None) -> bool:
    """Return True if a guard looks for an alert."""
    guard = convert(record.document, GuardRequest)
    if ANY not in guard.sources and source not in guard.sources:
        return False
    if guard.alerts is UNSET:
        return root_id == record.root_id
    return any(matches(one, given) for one in guard.alerts)
