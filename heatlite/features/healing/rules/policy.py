"""Healing policies: a root stack's document, its defaults, its rules for paths."""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import zip_longest
from typing import Annotated, Literal, TypeAlias, cast

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert
from msgspec.structs import replace

from heatlite.core.actions.repairs import RepairStep
from heatlite.core.errors import HTTPBadRequest, Problem
from heatlite.core.json import Json
from heatlite.core.validation import explain, faults, schema_of
from heatlite.features.healing.reports import API, CHECK, DRIFT
from heatlite.features.healing.rules.slots import members_scope
from heatlite.features.healing.rules.windows import Window, read_window
from heatlite.features.healing.terms import Mode, SecondOpinion

Count: TypeAlias = Annotated[int, Meta(ge=0, le=100_000)]
PositiveCount: TypeAlias = Annotated[int, Meta(ge=1, le=100_000)]
Share: TypeAlias = Annotated[str, Meta(pattern=r"^([0-9]|[1-9][0-9]|100)%$(?!\n)")]
PositiveShare: TypeAlias = Annotated[str, Meta(pattern=r"^([1-9]|[1-9][0-9]|100)%$(?!\n)")]
Seconds: TypeAlias = Annotated[int, Meta(ge=0, le=31_536_000)]
Day: TypeAlias = Annotated[int, Meta(ge=0, le=86_400)]
SourceName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
MOST_DOUBLINGS = 20
"""Failed repairs in a row that double the pause after a repair."""
ANY_SOURCE = "*"
"""All sources of reports; marks by request and failed checks must be named."""


class MemberLimit(Struct, frozen=True):
    """A number of members, or per cent of them."""

    number: int
    is_percent: bool = False

    def of(self, members: int) -> int:
        """Return the limit for a number of members.

        Per cent are rounded down, and at least 1 unless 0.
        """
        if not self.is_percent or self.number == 0:
            return self.number
        return max(1, members * self.number // 100)

    @classmethod
    def read(cls, given: object) -> "MemberLimit":
        """Read a checked value of a document."""
        if isinstance(given, str):
            return cls(int(given.removesuffix("%")), given.endswith("%"))
        return cls(int(str(given)))


class LadderStep(Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of repair."""

    step: RepairStep
    """``reboot``, ``rebuild`` or ``replace``."""
    settle: Seconds | None = None
    """Seconds that its effect is awaited; none: 300 for a reboot, 600 for a rebuild, ``grace`` for a replacement."""
    any_time: bool = False
    """``true`` if it needs no window."""


class PolicySettings(Struct, frozen=True):
    """The settings of a policy for one path."""

    mode: Mode = Mode.OFF
    drift: Mode = Mode.OFF
    sources: tuple[str, ...] = (ANY_SOURCE,)
    grace: int = 600
    hold: int = 60
    reports: int = 1
    max_unhealthy: MemberLimit = MemberLimit(30, True)
    min_unhealthy: int = 1
    parallel: MemberLimit = MemberLimit(1)
    cooldown: int = 300
    max_repairs: int = 3
    repairs_per: int = 3600
    min_healthy: int = 3600
    give_up_after: int = 3
    second_opinion: SecondOpinion = SecondOpinion.NONE
    windows: tuple[Window, ...] = ()
    ladder: tuple[LadderStep, ...] = (LadderStep(RepairStep.REPLACE),)

    def lists(self, source: str) -> bool:
        """Return True if incidents of a source are healed. Drift has a mode instead."""
        return source == DRIFT or source in self.sources or ANY_SOURCE in self.sources and source not in (API, CHECK)

    def mode_of(self, source: str) -> Mode:
        """Return the permission to repair incidents of a source."""
        return self.drift if source == DRIFT else self.mode

    def settles(self, source: str, position: int) -> int:
        """Return the seconds that the effect of a source's step is awaited."""
        return self.grace if source == DRIFT else self.settle(self.step_at(position))

    def step_at(self, position: int) -> LadderStep:
        """Return a step of the ladder; after the last one the last again."""
        return self.ladder[min(position, len(self.ladder) - 1)]

    def settle(self, step: LadderStep) -> int:
        """Return the seconds that the effect of a step is awaited."""
        if step.settle is not None:
            return step.settle
        return {RepairStep.REBOOT: 300, RepairStep.REBUILD: 600}.get(step.step, self.grace)

    @property
    def longest_period(self) -> int:
        """Seconds for which an ended repair counts."""
        longest = self.cooldown << min(self.give_up_after, MOST_DOUBLINGS)
        return max(self.repairs_per, self.min_healthy, longest, *map(self.settle, self.ladder))


class TreePolicy(Struct, frozen=True):
    """The policy of a tree."""

    top: PolicySettings = PolicySettings()
    rules: tuple[tuple[str, Mapping[str, object]], ...] = ()
    """Patterns of paths, each with the settings that it changes."""

    def at(self, path: str) -> PolicySettings:
        """Return the settings for a path: of the first matching rule, others inherited."""
        for pattern, changed in self.rules:
            if _matches(pattern, path):
                return replace(self.top, **changed)  # type: ignore[arg-type]  # the names are those of PolicySettings
        return self.top

    @property
    def longest_period(self) -> float:
        """Seconds for which an ended repair counts, for any path."""
        every = (self.top, *(replace(self.top, **changed) for _, changed in self.rules))  # type: ignore[arg-type]
        return float(max(one.longest_period for one in every))

    @property
    def heals_drift(self) -> bool:
        """True if drift is an incident anywhere in the tree."""
        every = (self.top.drift, *(changed.get("drift", Mode.OFF) for _, changed in self.rules))
        return any(mode is not Mode.OFF for mode in every)

    def of_scope(self, scope: str) -> PolicySettings:
        """Return the settings of a scope: of its path, or the top for a scope by type."""
        scope = members_scope(scope)
        return self.top if scope.startswith("type:") else self.at(scope)


DEFAULT = TreePolicy()
"""The policy of a tree without one."""


class Confirmation(Struct, frozen=True, forbid_unknown_fields=True):
    """The time and the number of reports that confirm a fault."""

    hold: Day | UnsetType = UNSET
    """Seconds that a report has to stand; default: 60."""
    reports: Annotated[int, Meta(ge=1, le=100)] | UnsetType = UNSET
    """Number of reports; default: 1."""


class RepairRate(Struct, frozen=True, forbid_unknown_fields=True):
    """The most repairs of a scope in a time."""

    count: Count
    """Number of repairs."""
    per: Annotated[int, Meta(ge=1, le=31_536_000)]
    """Seconds."""


class WindowDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """A time in which repairs may begin."""

    cron: str
    """Starts, as a line of cron."""
    duration: Annotated[int, Meta(ge=60, le=604_800)]
    """Seconds."""
    timezone: str = "UTC"
    """Time zone, such as ``Europe/Vienna``."""


class SettingsDocument(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings that a part of a document changes."""

    mode: Mode | UnsetType = UNSET
    """``off`` (default): marks only; ``propose``: a plan waits for approval; ``auto``."""
    drift: Mode | UnsetType = UNSET
    """``off`` (default): drift is no incident; ``propose``: a plan to put it back waits for approval; ``auto``."""
    sources: Annotated[tuple[SourceName, ...], Meta(max_length=100)] | UnsetType = UNSET
    """Sources of marks that are repaired; ``*`` (default): all of reports, not ``api`` and ``check``. Drift
    has the field ``drift`` instead."""
    grace: Day | UnsetType = UNSET
    """Seconds in which an object is too young to be marked; default: 600."""
    confirm: Confirmation | UnsetType = UNSET
    """The confirmation of a fault."""
    max_unhealthy: Count | Share | UnsetType = UNSET
    """Unhealthy members, or per cent of the scope (``30%``, default), beyond which the breaker opens."""
    min_unhealthy: Count | UnsetType = UNSET
    """Number of unhealthy members below which nothing is repaired; default: 1."""
    parallel: PositiveCount | PositiveShare | UnsetType = UNSET
    """Most members of the scope under repair or settling, or per cent of it; default: 1."""
    cooldown: Seconds | UnsetType = UNSET
    """Seconds after a repair; doubles with each failure in a row; default: 300."""
    max_repairs: RepairRate | UnsetType = UNSET
    """The most repairs in a time; default: 3 in an hour."""
    min_healthy: Seconds | UnsetType = UNSET
    """Seconds: trouble sooner after a repair means that the repair failed; default: 3600."""
    give_up_after: PositiveCount | UnsetType = UNSET
    """Failed repairs in a row, after which the scope is ``SUSPENDED``; default: 3."""
    second_opinion: SecondOpinion | UnsetType = UNSET
    """``check``: repair only what a check finds unhealthy, too; default: ``none``."""
    windows: Annotated[list[WindowDocument], Meta(max_length=50)] | UnsetType = UNSET
    """Times in which repairs may begin; default: any time."""
    ladder: Annotated[tuple[LadderStep, ...], Meta(min_length=1, max_length=10)] | UnsetType = UNSET
    """Steps in their order. Steps that the type cannot do are skipped."""


class PathRule(SettingsDocument, frozen=True, kw_only=True):
    """The settings for some paths."""

    match: Annotated[str, Meta(min_length=1, max_length=1024)]
    """Pattern of paths. The first rule that matches changes what it names."""


class HealingPolicyDocument(SettingsDocument, frozen=True, kw_only=True):
    """The document of a policy."""

    healing_policy: Literal["2026-11-22"]
    """The version of the format."""
    rules: Annotated[list[PathRule], Meta(max_length=100)] = []
    """Settings for paths: all of the above, for a pattern."""


def read_policy(document: Json) -> TreePolicy:
    """Read the document of a policy. Raises HTTPBadRequest with all its faults."""
    try:
        given = convert(document, HealingPolicyDocument)
    except ValidationError as error:
        found = sorted(faults(schema_of(HealingPolicyDocument), document), key=lambda one: str(one.absolute_path))
        named = [(("healing", *one.absolute_path), explain(one)) for one in found] or [(("healing",), str(error))]
        raise _refusal([Problem(path, text, error="HTTPBadRequest") for path, text in named]) from None
    problems: list[Problem] = []
    top = replace(PolicySettings(), **_changed(given, ("healing",), problems))  # type: ignore[arg-type]
    rules = [
        (rule.match, _changed(rule, ("healing", "rules", at), problems)) for at, rule in enumerate(given.rules)
    ]
    if problems:
        raise _refusal(problems)
    return TreePolicy(top, tuple(rules))


def check_policy(document: Json) -> None:
    """Check the document of a new policy.

    A window has to open some day; a stored one may not. Raises as `read_policy`.
    """
    policy = read_policy(document)
    windows: list[tuple[tuple[str | int, ...], object]] = [(("healing",), policy.top.windows)]
    windows += [(("healing", "rules", at), rule.get("windows", ())) for at, (_, rule) in enumerate(policy.rules)]
    problems = [
        Problem((*path, "windows", at), "cron: there is no such day, so it never opens", error="HTTPBadRequest")
        for path, found in windows
        for at, window in enumerate(cast(tuple[Window, ...], found))
        if not window.cron.ever_starts
    ]
    if problems:
        raise _refusal(problems)


def _refusal(problems: Sequence[Problem]) -> HTTPBadRequest:
    text = "; ".join(f"{problem.where}: {problem.text}" for problem in problems)
    return HTTPBadRequest(f"The healing policy is not valid. {text}", problems=tuple(problems))


def _changed(
    given: SettingsDocument, path: tuple[str | int, ...], problems: list[Problem]
) -> dict[str, object]:
    """Return the settings of a part of a document. Adds faults of its windows."""
    found = _named(given, PolicySettings.__struct_fields__)
    for name in found.keys() & {"max_unhealthy", "parallel"}:
        found[name] = MemberLimit.read(found[name])
    if given.confirm is not UNSET:
        found |= _named(given.confirm, Confirmation.__struct_fields__)
    if given.max_repairs is not UNSET:
        found |= {"max_repairs": given.max_repairs.count, "repairs_per": given.max_repairs.per}
    if given.windows is not UNSET:
        found["windows"] = tuple(_windows(given.windows, (*path, "windows"), problems))
    return found


def _named(given: Struct, fields: Sequence[str]) -> dict[str, object]:
    """Return the values of those fields that a part of a document has."""
    return {name: value for name in fields if (value := getattr(given, name, UNSET)) is not UNSET}


def _windows(
    given: Sequence[WindowDocument], path: tuple[str | int, ...], problems: list[Problem]
) -> Iterator[Window]:
    for at, one in enumerate(given):
        try:
            yield read_window(one.cron, one.timezone, one.duration)
        except ValueError as error:
            problems.append(Problem((*path, at), str(error), error="HTTPBadRequest"))


def _matches(pattern: str, path: str) -> bool:
    """Return True if a path, or one above it, has the pattern: segment by segment."""
    wanted, given = pattern.strip("/").split("/"), path.split("/")
    pairs = zip_longest(wanted, given[: len(wanted)])
    return all(one is not None and other is not None and fnmatchcase(other, one) for one, other in pairs)
