"""Documents of change policies, and the strictest value of each of their keys."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, field

from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import Json, JsonMap, whole_numbers
from heatlite.core.validation import NO_LINE_FEED, all_faults, convert
from heatlite.core.wire.base import Body, Count
from heatlite.core.wire.guards import GuardRequest

VERSION: Final = "2026-11-28"
"""The version of the format."""


class Approve(StrEnum):
    """Changes that need an approval, the strictest last."""

    NEVER = "never"
    REMOVALS = "removals"
    """Plans that replace, rebuild or delete an object, and each deletion of a stack."""
    ALWAYS = "always"
    """Plans that change anything."""


class SignalMode(StrEnum):
    """Effect of signals whose scaling would need an approval, the strictest last."""

    PASS = "pass"
    IGNORE = "ignore"


class Reads(StrEnum):
    """Effect of a removal of what other stacks read, the strictest last."""

    WARN = "warn"
    """The plan lists the readers."""
    REFUSE = "refuse"


class About(StrEnum):
    """Subjects of rules."""

    RESOURCE = "resource"
    PLAN = "plan"


class Occasion(StrEnum):
    """Operations that a rule is asked for."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    SCALE = "scale"
    HEAL = "heal"


USUAL: Final = (Occasion.CREATE, Occasion.UPDATE, Occasion.DELETE, Occasion.SCALE)


class RuleResult(StrEnum):
    """Effect of a rule that strikes, the strictest last."""

    WARN = "warn"
    APPROVE = "approve"
    DENY = "deny"


DEADLINE: Final = 5
"""Seconds that an endpoint has, unless its rule says otherwise."""


class PlanRule(Body, frozen=True, kw_only=True):
    """A rule that judges plans."""

    name: Annotated[str, Meta(pattern=rf"^[A-Za-z0-9_.-]{{1,64}}${NO_LINE_FEED}")]
    """The name, which no other rule of the document has."""
    for_: About = field(name="for")
    """``resource``: it is asked for each resource that the plan creates, updates, replaces or deletes.

    ``plan``: it is asked once.
    """
    types: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=255)], ...], Meta(max_length=100)] = ()
    """Patterns of resource types, such as ``OS::Neutron::*``; only with ``for: resource``. Empty: all types."""
    on: Annotated[tuple[Occasion, ...], Meta(min_length=1, max_length=5)] = USUAL
    """Operations that it is asked for. Default: all but ``heal``."""
    when: Annotated[str, Meta(min_length=1, max_length=2000)] | UnsetType = UNSET
    """Expression in CEL. If it is true, the rule strikes."""
    url: Annotated[str, Meta(min_length=1, max_length=2000)] | UnsetType = UNSET
    """Endpoint that judges the plan, in place of ``when``; only with ``for: plan``.

    The setting ``rule_hosts`` lists its host.
    """
    deadline: Annotated[int, Meta(ge=1, le=20)] | UnsetType = UNSET
    """Seconds until the endpoint must have answered; default: 5."""
    then: RuleResult
    """``deny``: the operation is refused. ``approve``: it needs an approval. ``warn``: it passes.

    An endpoint says itself what it is.
    """
    on_error: RuleResult | UnsetType = UNSET
    """Effect if the expression cannot be evaluated, or the endpoint does not answer. Default: that of ``then``."""
    message: Annotated[str, Meta(min_length=1, max_length=500)]
    """The reason, for those who read the plan."""

    @property
    def expression(self) -> str:
        """The expression; "" with an endpoint."""
        return "" if isinstance(self.when, UnsetType) else self.when

    @property
    def endpoint(self) -> str:
        """The address of the endpoint; "" with an expression."""
        return "" if isinstance(self.url, UnsetType) else self.url

    @property
    def seconds(self) -> int:
        """The time that the endpoint has."""
        return DEADLINE if isinstance(self.deadline, UnsetType) else self.deadline


Rules: TypeAlias = Annotated[tuple[PlanRule, ...], Meta(max_length=100)]


Pattern: TypeAlias = Annotated[str, Meta(min_length=1, max_length=255)]


class Grant(Body, frozen=True, kw_only=True):
    """Outputs of a stack that stacks of another project may read."""

    project: Annotated[str, Meta(min_length=1, max_length=255)]
    """The other project."""
    outputs: Annotated[tuple[Pattern, ...], Meta(min_length=1, max_length=100)]
    """Patterns of names of outputs, such as ``net_*``."""


Grants: TypeAlias = Annotated[tuple[Grant, ...], Meta(max_length=100)]


class PolicyKeys(Body, frozen=True, kw_only=True):
    """The keys of a document. Each is left out or has a value."""

    approve: Approve | UnsetType = UNSET
    """Changes that need an approval: ``never`` (default), ``removals``, ``always``.

    ``removals``: the plan replaces, rebuilds or deletes an object, or the stack is deleted. ``always``: it changes
    anything.
    """
    four_eyes: bool | UnsetType = UNSET
    """``true``: who requests may not decide. It needs authentication. Default: ``false``."""
    approval_ttl: Annotated[int, Meta(ge=60, le=7_776_000)] | UnsetType = UNSET
    """Seconds until an approval expires; default: 604800. The smallest counts."""
    signals: SignalMode | UnsetType = UNSET
    """``ignore``: scaling signals have no effect where the scaling would need an approval. Default: ``pass``."""
    reads: Reads | UnsetType = UNSET
    """``refuse``: an update or a deletion that removes an output which other stacks read is 409 ``OutputInUse``.

    ``warn`` (default): the plan lists them.
    """
    revisions: Annotated[int, Meta(ge=2, le=200)] | UnsetType = UNSET
    """Number of definitions that are kept of a stack; default: 20. The largest counts."""


class ChangePolicyDocument(PolicyKeys, frozen=True, kw_only=True):
    """A change policy."""

    change_policy: Literal["2026-11-28"]
    """The version of the format."""
    version: Count | UnsetType = UNSET
    """The version of the policy that it replaces. Another one is 409 ``PolicyChanged``."""


class ProjectDocument(ChangePolicyDocument, frozen=True, kw_only=True):
    """A change policy of a project."""

    rules: Rules | UnsetType = UNSET
    """Rules that judge plans. Those of the operator and of the project add up."""


class StackDocument(ChangePolicyDocument, frozen=True, kw_only=True):
    """A change policy of a stack."""

    guard: GuardRequest | None | UnsetType = UNSET
    """Guard of the updates that bring none; default: none."""
    grants: Grants | UnsetType = UNSET
    """Outputs that stacks of other projects may read; default: none."""


class SettingsTable(PolicyKeys, frozen=True, kw_only=True):
    """The operator's change policy in the settings."""

    change_policy: Literal["2026-11-28"] | UnsetType = UNSET
    """The version of the format."""
    rules: Rules | UnsetType = UNSET
    """Rules that judge plans."""


class ChangePolicyValues(Struct, frozen=True):
    """The values of all keys; the defaults are those without any document."""

    approve: Approve = Approve.NEVER
    four_eyes: bool = False
    approval_ttl: int = 604_800
    """Seconds."""
    signals: SignalMode = SignalMode.PASS
    reads: Reads = Reads.WARN
    revisions: int = 20


class PolicyOrigin(StrEnum):
    """Places of documents, and of values that none of them has."""

    OPERATOR = "operator"
    PROJECT = "project"
    STACK = "stack"
    DEFAULT = "default"


class PlacedRule(Struct, frozen=True):
    """A rule, and the place of its document."""

    origin: PolicyOrigin
    rule: PlanRule


class Effective(Struct, frozen=True):
    """The policy that counts, and where its values come from."""

    policy: ChangePolicyValues
    origins: Mapping[str, PolicyOrigin]
    """By key."""
    rules: tuple[PlacedRule, ...] = ()
    """Those of all documents."""
    guard: GuardRequest | None = None
    """That of the stack."""
    grants: tuple[Grant, ...] = ()
    """Those of the stack."""


_RANKS: Final[Mapping[str, Callable[[PolicyKeys | ChangePolicyValues], float]]] = {
    "approve": lambda one: [*Approve].index(Approve(str(one.approve))),
    "four_eyes": lambda one: one.four_eyes is True,
    "approval_ttl": lambda one: -_whole(one.approval_ttl),
    "signals": lambda one: [*SignalMode].index(SignalMode(str(one.signals))),
    "reads": lambda one: [*Reads].index(Reads(str(one.reads))),
    "revisions": lambda one: _whole(one.revisions),
}
"""By key, how strict its value is."""
LEAST: Final = 0
"""Rank of the values that ask nothing."""


def _whole(value: int | UnsetType) -> int:
    return 0 if isinstance(value, UnsetType) else value


def strictest(documents: Mapping[PolicyOrigin, PolicyKeys]) -> Effective:
    """Return the strictest value of each key in some documents."""
    values: dict[str, object] = {}
    origins: dict[str, PolicyOrigin] = {}
    for key, rank in _RANKS.items():
        found = [origin for origin, one in documents.items() if getattr(one, key) is not UNSET]
        if found:
            origins[key] = max(found, key=lambda origin: rank(documents[origin]))
            values[key] = getattr(documents[origins[key]], key)
        else:
            origins[key] = PolicyOrigin.DEFAULT
    guard = next(filter(None, map(guard_of, documents.values())), None)
    rules = tuple(PlacedRule(origin, rule) for origin, one in documents.items() for rule in rules_of(one))
    grants = tuple(grant for one in documents.values() for grant in grants_of(one))
    policy = ChangePolicyValues(**values)  # type: ignore[arg-type]  # the keys are its fields
    return Effective(policy, origins, rules, guard, grants)


def rules_of(document: PolicyKeys) -> Sequence[PlanRule]:
    """Return the rules of a document. Those of stacks have none."""
    if not isinstance(document, ProjectDocument | SettingsTable) or isinstance(document.rules, UnsetType):
        return ()
    return document.rules


def guard_of(document: PolicyKeys | ChangePolicyValues) -> GuardRequest | None:
    """Return the guard of a document. Only those of stacks have one."""
    return document.guard if isinstance(document, StackDocument) and document.guard is not UNSET else None


def grants_of(document: PolicyKeys | ChangePolicyValues) -> Sequence[Grant]:
    """Return the grants of a document. Only those of stacks have some."""
    if not isinstance(document, StackDocument) or isinstance(document.grants, UnsetType):
        return ()
    return document.grants


def of_yaml(document: Json) -> Json:
    """Return a document that was read from YAML.

    There the key ``on`` of a rule stands for true.
    """
    rules = document.get("rules") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(rules, list):
        return document
    return {**document, "rules": [_with_on(one) if isinstance(one, dict) else one for one in rules]}


def _with_on(rule: JsonMap) -> JsonMap:
    return {"on" if key == "true" else key: value for key, value in rule.items()}


def faults_of_rules(rules: Sequence[PlanRule]) -> Sequence[str]:
    """Return the faults of rules that their form does not show."""
    names = [one.name for one in rules]
    found = [f"rules: there are several with the name {name}." for name in names if names.count(name) > 1]
    for place, one in enumerate(rules):
        if one.types and one.for_ is About.PLAN:
            found.append(f"rules[{place}].types: only a rule for: resource has types.")
        if bool(one.expression) == bool(one.endpoint):
            found.append(f"rules[{place}] ({one.name}): a rule has either when, an expression, or url, an endpoint.")
        if one.endpoint and one.for_ is About.RESOURCE:
            found.append(f"rules[{place}].url ({one.name}): an endpoint judges the whole plan, so for: plan.")
        if one.deadline is not UNSET and not one.endpoint:
            found.append(f"rules[{place}].deadline ({one.name}): only a rule with a url has a deadline.")
    return list(dict.fromkeys(found))


def loosened(before: PolicyKeys | ChangePolicyValues, after: PolicyKeys | ChangePolicyValues) -> Sequence[str]:
    """Return the keys whose values become less strict. One that is taken away does."""
    found = [key for key, rank in _RANKS.items() if _is_looser(key, rank, before, after)]
    if not _keeps_guard(guard_of(before), guard_of(after)):
        found.append("guard")
    if not _granted(after) <= _granted(before):
        found.append("grants")
    return found


def _granted(document: PolicyKeys | ChangePolicyValues) -> set[tuple[str, str]]:
    """Return the projects and patterns of outputs of all grants."""
    return {(one.project, pattern) for one in grants_of(document) for pattern in one.outputs}


def _keeps_guard(old: GuardRequest | None, new: GuardRequest | None) -> bool:
    """Return True if a guard stays, or becomes stricter."""
    return old is None or (new is not None and not new.looser_than(old))


def _is_looser(
    key: str, rank: Callable[
        [PolicyKeys | ChangePolicyValues], float
    ], before: PolicyKeys | ChangePolicyValues, after: PolicyKeys | ChangePolicyValues
) -> bool:
    if getattr(before, key) is UNSET:
        return False
    if getattr(after, key) is UNSET:
        return rank(before) != LEAST
    return rank(after) < rank(before)


Document = TypeVar("Document", bound=ChangePolicyDocument)


def read_document(value: Json, kind: type[Document]) -> Document:
    """Return the change policy of a body. Raises HTTPBadRequest with all its faults."""
    value = whole_numbers(value)
    found = all_faults(value, kind)
    if found:
        raise _faulty(found)
    document = convert(value, kind)
    found = [*faults_of_rules(rules_of(document))]
    if found:
        raise _faulty(found)
    return document


def _faulty(found: Sequence[str]) -> HTTPBadRequest:
    return HTTPBadRequest(f"The change policy is not valid. {' '.join(found)}")
