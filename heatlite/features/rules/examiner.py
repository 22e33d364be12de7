"""Judges operations by the rules of change policies."""

from collections.abc import Callable, Collection, Sequence

from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.errors import HeatliteError
from heatlite.core.json import JsonMap
from heatlite.core.runtime.meter import Meter
from heatlite.core.wire.base import shown
from heatlite.engine.admission.claims import Asked, Change, Claim, Examiner
from heatlite.engine.preview.preview import StackPreview
from heatlite.feature import is_active
from heatlite.features.change_policy.effective import PlacedRule, Result, any_rules, effective
from heatlite.features.rules.errors import RuleDenied, ScalingDenied
from heatlite.features.rules.judging import Judgement, judged, may_ask
from heatlite.features.rules.metrics import ERRORS, RESULTS
from heatlite.features.rules.scene import OCCASIONS, scene
from heatlite.store.records import ActionRecord, StackRecord
from heatlite.store.store import Store


class RuleExaminer(Examiner):
    """Judges plans (`claims.Examiner`). Safe for threads."""

    def __init__(self, store: Store, clock: Clock, settings: Settings, meter: Meter) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._meter = meter
        meter.declare(RESULTS, ERRORS)

    def concerns(self, types: Collection[str]) -> bool:
        """Return whether there may be rules."""
        return any_rules(self._store, self._settings)

    def examine(self, asked: Asked) -> "RuleClaim":
        """Return the claim of a request, which judges it in its transaction.

        Where that would come too late, it also judges here: a create delegates rights before, and the plan of an update
        may read the cloud. Raises RuleDenied.
        """
        claim = RuleClaim(self, asked)
        if asked.observes or asked.change is Change.CREATE:
            claim.judge(asked.preview)
        return claim

    def reasons(self, asked: Asked) -> Sequence[str]:
        """Return the rules by which a plan that is previewed needs an approval."""
        rules = self.rules(asked)
        if not any(may_ask(one.rule) for one in rules):
            return ()
        return self._judged(asked, rules, asked.preview()).reasons

    def validated(self, asked: Asked) -> JsonMap:
        """Return what rules find in a template, if it has all values."""
        try:
            return self.shown(asked, ())
        except HeatliteError:
            return {}  # only the create needs them

    def shown(self, asked: Asked, because: Sequence[str]) -> JsonMap:
        """Return what rules find in a plan that is shown, if there are any."""
        rules = self.rules(asked)
        if not rules:
            return {}
        return {"rules": [shown(one) for one in self._judged(asked, rules, asked.preview()).findings]}

    def rules(self, asked: Asked) -> Sequence[PlacedRule]:
        """Return the rules that an operation is judged by."""
        root_id = "" if asked.change is Change.CREATE else asked.stack.root_id or asked.stack.id
        found = effective(self._store, self._settings, asked.stack.project, root_id).rules
        return [one for one in found if OCCASIONS[asked.change] in one.rule.on]

    def admit(self, asked: Asked, rules: Sequence[PlacedRule], plan: StackPreview) -> Judgement:
        """Return the judgement of an operation.

        Raises RuleDenied, or ScalingDenied for a signal, if a rule denies. A rule that wants an approval denies while
        the feature approvals is off.
        """
        found = self._judged(asked, rules, plan)
        for one in found.findings:
            self._meter.count(RESULTS, one.result.value)
        if found.errors:
            self._meter.count(ERRORS, number=found.errors)
        needs_nobody = is_active(self._settings, "approvals") or not found.reasons
        if found.strictest is not Result.DENY and needs_nobody:
            return found
        if asked.change is Change.SIGNAL:
            raise ScalingDenied(found.findings)
        raise RuleDenied(asked.stack.name, found.findings)

    def _judged(self, asked: Asked, rules: Sequence[PlacedRule], plan: StackPreview) -> Judgement:
        return judged(rules, OCCASIONS[asked.change], scene(self._store, asked, plan, self._clock.now()))


class RuleClaim(Claim):
    """Part of rules in the transaction of a request (`claims.Claim`)."""

    def __init__(self, examiner: RuleExaminer, asked: Asked) -> None:
        self._examiner = examiner
        self._asked = asked
        self._rules: Sequence[PlacedRule] = ()
        self._plan: StackPreview | None = None
        self._reasons: Sequence[str] = ()

    def look(self, preview: Callable[[], StackPreview]) -> Sequence[str]:
        """Return the rules by which the plan needs an approval. Raises as `judge`."""
        return self.judge(preview)

    def take(self, action: ActionRecord, stack: StackRecord, preview: Callable[[], StackPreview] | None = None) -> None:
        """Judge a repair, which has no other plan than the examined one."""
        if self._asked.change is Change.REPAIR:
            self.judge(self._asked.preview)

    def judge(self, preview: Callable[[], StackPreview]) -> Sequence[str]:
        """Judge a plan, unless this was done before with the same rules.

        Returns the rules by which it needs an approval. Raises RuleDenied, ScalingDenied.
        """
        rules = self._examiner.rules(self._asked)
        if not rules:
            return ()
        plan = preview()
        if plan is not self._plan or rules != self._rules:
            self._reasons = self._examiner.admit(self._asked, rules, plan).reasons
            self._rules, self._plan = rules, plan
        return self._reasons
