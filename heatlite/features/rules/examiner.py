"""Judges operations by the rules of change policies."""

from collections.abc import Callable, Collection, Sequence
from weakref import WeakKeyDictionary

from msgspec import Struct

from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.errors import HeatliteError, PlanChanged
from heatlite.core.json import JsonMap
from heatlite.core.runtime.meter import Meter
from heatlite.core.wire.base import shown
from heatlite.engine.admission.claims import ChangeKind, Claim, Examiner, PlanMoved, PreparedRequest
from heatlite.engine.preview.preview import StackPreview
from heatlite.feature import is_active
from heatlite.features.change_policy.effective import PlacedRule, RuleResult, any_rules, effective
from heatlite.features.rules.endpoints import Answers, Endpoints
from heatlite.features.rules.errors import RuleDenied, ScalingDenied
from heatlite.features.rules.feature import RulesSettings
from heatlite.features.rules.judging import Judgement, judged, may_ask
from heatlite.features.rules.metrics import ERRORS, RESULTS
from heatlite.features.rules.scene import OCCASIONS, endpoint_request, scene
from heatlite.store.records import ActionRecord, StackRecord
from heatlite.store.store import Store


class RuleExaminer(Examiner):
    """Judges plans (`claims.Examiner`). Safe for threads."""

    def __init__(self, store: Store, clock: Clock, settings: Settings, meter: Meter) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._meter = meter
        self.endpoints = Endpoints(settings.of(RulesSettings), clock)
        self._previews = WeakKeyDictionary[StackPreview, tuple[Sequence[PlacedRule], Judgement]]()
        """Judgements of plans that are shown."""
        meter.declare(RESULTS, ERRORS)

    def concerns(self, types: Collection[str]) -> bool:
        """Return whether there may be rules."""
        return any_rules(self._store, self._settings)

    def examine(self, asked: PreparedRequest) -> "RuleClaim":
        """Return the claim of a request, which judges it in its transaction.

        Endpoints are asked before. Where the transaction would come too late, it also judges here: a create delegates
        rights before, and the plan of an update may read the cloud. Raises RuleDenied, Unavailable.
        """
        claim = RuleClaim(self, asked)
        claim.ask()
        if asked.observes or asked.change is ChangeKind.CREATE:
            claim.judge(asked.preview)
        return claim

    def reasons(self, asked: PreparedRequest) -> Sequence[str]:
        """Return the rules by which a plan that is previewed needs an approval."""
        rules = self.rules(asked)
        if not any(may_ask(one.rule) for one in rules):
            return ()
        return self._previewed(asked, rules).reasons

    def validated(self, asked: PreparedRequest) -> JsonMap:
        """Return what rules find in a template, if it has all values."""
        try:
            return self.shown(asked, ())
        except HeatliteError:
            return {}  # only the create needs them

    def shown(self, asked: PreparedRequest, because: Sequence[str]) -> JsonMap:
        """Return what rules find in a plan that is shown, if there are any."""
        rules = self.rules(asked)
        if not rules:
            return {}
        return {"rules": [shown(one) for one in self._previewed(asked, rules).findings]}

    def _previewed(self, asked: PreparedRequest, rules: Sequence[PlacedRule]) -> Judgement:
        """Return the judgement of a plan that is shown. It is made once."""
        plan = asked.preview()
        known = self._previews.get(plan)
        if known is None or known[0] != rules:
            answered = self.answered(asked, rules, plan)
            known = rules, self._judged(asked, rules, plan, {} if answered is None else answered.answers)
            self._previews[plan] = known
        return known[1]

    def answered(
        self, asked: PreparedRequest, rules: Sequence[PlacedRule], plan: StackPreview
    ) -> "EndpointAnswers | None":
        """Ask the endpoints of rules about a plan. Returns None if there are none.

        Call it in no transaction. Raises Unavailable.
        """
        endpoints = [one for one in rules if one.rule.endpoint]
        if not endpoints:
            return None
        digest, seen = asked.shown(plan).digest, scene(self._store, asked, plan, self._clock.now())
        return EndpointAnswers(
            plan, digest, self.endpoints.ask(endpoints, endpoint_request(asked.context.request_id, digest, seen))
        )

    def rules(self, asked: PreparedRequest) -> Sequence[PlacedRule]:
        """Return the rules that an operation is judged by.

        A change that touches no object has none.
        """
        if asked.change not in OCCASIONS:
            return []
        root_id = "" if asked.change is ChangeKind.CREATE else asked.stack.root_id or asked.stack.id
        found = effective(self._store, self._settings, asked.stack.project, root_id).rules
        return [one for one in found if OCCASIONS[asked.change] in one.rule.on]

    def admit(
        self, asked: PreparedRequest, rules: Sequence[PlacedRule], plan: StackPreview, answers: Answers
    ) -> Judgement:
        """Return the judgement of an operation.

        Raises RuleDenied, or ScalingDenied for a signal, if a rule denies. A rule that wants an approval denies
        repairs, and all while the feature approvals is off.
        """
        found = self._judged(asked, rules, plan, answers)
        for one in found.findings:
            self._meter.count(RESULTS, one.result.value)
        if found.errors:
            self._meter.count(ERRORS, number=found.errors)
        can_ask = asked.change is not ChangeKind.REPAIR and is_active(self._settings, "approvals")
        if found.strictest is not RuleResult.DENY and (can_ask or not found.reasons):
            return found
        if asked.change is ChangeKind.SIGNAL:
            raise ScalingDenied(found.findings)
        raise RuleDenied(asked.stack.name, found.findings)

    def _judged(
        self, asked: PreparedRequest, rules: Sequence[PlacedRule], plan: StackPreview, answers: Answers
    ) -> Judgement:
        return judged(rules, OCCASIONS[asked.change], scene(self._store, asked, plan, self._clock.now()), answers)


class EndpointAnswers(Struct, frozen=True):
    """Answers of endpoints about a plan."""

    plan: StackPreview
    digest: str
    answers: Answers

    def hold(self, asked: PreparedRequest, endpoints: Sequence[PlacedRule], plan: StackPreview) -> bool:
        """Return whether they are of these endpoints, and about this plan."""
        return self.answers.keys() >= {*endpoints} and (
            plan is self.plan or asked.shown(plan).digest == self.digest
        )


class RuleClaim(Claim):
    """Part of rules in the transaction of a request (`claims.Claim`)."""

    def __init__(self, examiner: RuleExaminer, asked: PreparedRequest) -> None:
        self._examiner = examiner
        self._asked = asked
        self._rules: Sequence[PlacedRule] = ()
        self._plan: StackPreview | None = None
        self._reasons: Sequence[str] = ()
        self._answered: EndpointAnswers | None = None

    def ask(self) -> None:
        """Ask the endpoints, before the transaction."""
        if not self._examiner.endpoints.are_open:
            return  # one query less
        rules = self._examiner.rules(self._asked)
        if any(one.rule.endpoint for one in rules):
            self._answered = self._examiner.answered(self._asked, rules, self._asked.preview())

    def look(self, preview: Callable[[], StackPreview]) -> Sequence[str]:
        """Return the rules by which the plan needs an approval. Raises as `judge`."""
        return () if self._asked.change is ChangeKind.REPAIR else self.judge(preview)

    def take(self, action: ActionRecord, stack: StackRecord, preview: Callable[[], StackPreview] | None = None) -> None:
        """Judge a repair, which has no other plan than the examined one."""
        if self._asked.change is ChangeKind.REPAIR:
            self.judge(self._asked.preview)

    def judge(self, preview: Callable[[], StackPreview]) -> Sequence[str]:
        """Judge a plan, unless this was done before with the same rules.

        Returns the rules by which it needs an approval. Raises RuleDenied, ScalingDenied, and PlanMoved if the
        endpoints were asked about another plan.
        """
        rules = self._examiner.rules(self._asked)
        if not rules:
            return ()
        plan = preview()
        if plan is not self._plan or rules != self._rules:
            self._reasons = self._examiner.admit(self._asked, rules, plan, self._answers(rules, plan)).reasons
            self._rules, self._plan = rules, plan
        return self._reasons

    def _answers(self, rules: Sequence[PlacedRule], plan: StackPreview) -> Answers:
        endpoints = [one for one in rules if one.rule.endpoint]
        if not endpoints:
            return {}
        if not self._examiner.endpoints.are_open:
            return {one: self._examiner.endpoints.fault(one.rule) or "" for one in endpoints}
        if self._answered is None or not self._answered.hold(self._asked, endpoints, plan):
            # Healing tries again by itself.
            changed = PlanChanged if self._asked.change is ChangeKind.REPAIR else PlanMoved
            raise changed(stack_name=self._asked.stack.name)
        return self._answered.answers
