"""Healing policies: a root stack's document, its defaults, its rules for paths."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import zip_longest
from typing import cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.errors import HTTPBadRequest, Problem
from heatlite.core.json import Json, JsonMap
from heatlite.core.repairs import RepairStep
from heatlite.core.validation import closed, explain, faults
from heatlite.features.healing.reports import API, CHECK
from heatlite.features.healing.rules.windows import Window, parse_cron
from heatlite.features.healing.terms import Mode, SecondOpinion

VERSION = "2026-11-22"
MOST_DOUBLINGS = 20
"""Failed repairs in a row that double the pause after a repair."""
ANY_SOURCE = "*"
"""All sources of reports; marks by request and failed checks must be named."""


class Limit(Struct, frozen=True):
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
    def read(cls, given: Json) -> "Limit":
        """Read a checked value of a document."""
        if isinstance(given, str):
            return cls(int(given.removesuffix("%")), given.endswith("%"))
        return cls(int(str(given)))


class LadderStep(Struct, frozen=True):
    """One kind of repair."""

    step: RepairStep
    settle: int | None = None
    """Seconds that its effect is awaited; None: 300 for a reboot, 600 for a rebuild, `grace` for a replacement."""
    any_time: bool = False
    """True if it needs no window."""


class Settings(Struct, frozen=True):
    """The settings of a policy for one path."""

    mode: Mode = Mode.OFF
    sources: tuple[str, ...] = (ANY_SOURCE,)
    grace: int = 600
    hold: int = 60
    reports: int = 1
    max_unhealthy: Limit = Limit(30, True)
    min_unhealthy: int = 1
    parallel: Limit = Limit(1)
    cooldown: int = 300
    max_repairs: int = 3
    repairs_per: int = 3600
    min_healthy: int = 3600
    give_up_after: int = 3
    second_opinion: SecondOpinion = SecondOpinion.NONE
    windows: tuple[Window, ...] = ()
    ladder: tuple[LadderStep, ...] = (LadderStep(RepairStep.REPLACE),)

    def lists(self, source: str) -> bool:
        """Return True if marks of a source are healed."""
        return source in self.sources or ANY_SOURCE in self.sources and source not in (API, CHECK)

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
        longest_cooldown = self.cooldown << min(self.give_up_after, MOST_DOUBLINGS)
        return max(self.repairs_per, self.min_healthy, longest_cooldown, *map(self.settle, self.ladder))


class Policy(Struct, frozen=True):
    """The policy of a tree."""

    top: Settings = Settings()
    rules: tuple[tuple[str, Mapping[str, object]], ...] = ()
    """Patterns of paths, each with the settings that it changes."""

    def at(self, path: str) -> Settings:
        """Return the settings for a path: of the first matching rule, others inherited."""
        for pattern, changed in self.rules:
            if _matches(pattern, path):
                return replace(self.top, **changed)  # type: ignore[arg-type]  # the names are those of Settings
        return self.top

    @property
    def longest_period(self) -> float:
        """Seconds for which an ended repair counts, for any path."""
        every = (self.top, *(replace(self.top, **changed) for _, changed in self.rules))  # type: ignore[arg-type]
        return float(max(one.longest_period for one in every))

    def of_scope(self, scope: str) -> Settings:
        """Return the settings of a scope: of its path, or the top for a scope by type."""
        return self.top if scope.startswith("type:") else self.at(scope)


DEFAULT = Policy()
"""The policy of a tree without one."""

_COUNT: JsonMap = {"type": "integer", "minimum": 0, "maximum": 100000}
_LIMIT: JsonMap = {"anyOf": [_COUNT, {"type": "string", "pattern": "^([0-9]|[1-9][0-9]|100)%$"}]}
_SECONDS: JsonMap = {"type": "integer", "minimum": 0, "maximum": 31536000}
_DAY: JsonMap = {"type": "integer", "minimum": 0, "maximum": 86400}
_WINDOW = closed(
    "cron",
    "duration",
    cron={"type": "string"},
    duration={"type": "integer", "minimum": 60, "maximum": 604800},
    timezone={"type": "string"},
)
_FIELDS: dict[str, JsonMap] = {
    "mode": {"enum": [*Mode]},
    "sources": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 64}, "maxItems": 100},
    "grace": _DAY,
    "confirm": closed(hold=_DAY, reports={"type": "integer", "minimum": 1, "maximum": 100}),
    "max_unhealthy": _LIMIT,
    "min_unhealthy": _COUNT,
    "parallel": {"anyOf": [{**_COUNT, "minimum": 1}, {"type": "string", "pattern": "^([1-9]|[1-9][0-9]|100)%$"}]},
    "cooldown": _SECONDS,
    "max_repairs": closed("count", "per", count=_COUNT, per={**_SECONDS, "minimum": 1}),
    "min_healthy": _SECONDS,
    "give_up_after": {**_COUNT, "minimum": 1},
    "second_opinion": {"enum": [*SecondOpinion]},
    "windows": {"type": "array", "maxItems": 50, "items": _WINDOW},
    "ladder": {
        "type": "array",
        "minItems": 1,
        "maxItems": 10,
        "items": closed("step", step={"enum": [*RepairStep]}, settle=_SECONDS, any_time={"type": "boolean"}),
    },
}
_RULE = closed("match", match={"type": "string", "minLength": 1, "maxLength": 1024}, **_FIELDS)
SCHEMA = closed(
    "healing_policy",
    healing_policy={"const": VERSION},
    rules={"type": "array", "maxItems": 100, "items": _RULE},
    **_FIELDS,
)


def read_policy(document: Json) -> Policy:
    """Read the document of a policy. Raises HTTPBadRequest with all its faults."""
    problems = [
        Problem(("healing", *error.absolute_path), explain(error), error="HTTPBadRequest")
        for error in sorted(faults(SCHEMA, document), key=lambda one: str(one.absolute_path))
    ]
    if not problems and isinstance(document, dict):
        rules: list[tuple[str, Mapping[str, object]]] = []
        top = replace(Settings(), **_changed(document, ("healing",), problems))  # type: ignore[arg-type]
        given = document.get("rules", [])
        for number, rule in enumerate(given if isinstance(given, list) else []):
            if isinstance(rule, dict):
                rules.append((str(rule["match"]), _changed(rule, ("healing", "rules", number), problems)))
        if not problems:
            return Policy(top, tuple(rules))
    raise _refusal(problems)


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


def _changed(given: JsonMap, path: tuple[str | int, ...], problems: list[Problem]) -> dict[str, object]:
    """Return the settings of a checked part of a document. Adds faults of its windows."""
    found: dict[str, object] = {}
    known = Settings.__struct_fields__
    for name, value in given.items():
        match name:
            case "confirm" if isinstance(value, dict):
                found |= value
            case "max_repairs" if isinstance(value, dict):
                found |= {"max_repairs": value["count"], "repairs_per": value["per"]}
            case "max_unhealthy" | "parallel":
                found[name] = Limit.read(value)
            case "mode":
                found[name] = Mode(str(value))
            case "second_opinion":
                found[name] = SecondOpinion(str(value))
            case "sources" if isinstance(value, list):
                found[name] = tuple(map(str, value))
            case "ladder" if isinstance(value, list):
                found[name] = tuple(_ladder_step(step) for step in value if isinstance(step, dict))
            case "windows" if isinstance(value, list):
                found[name] = tuple(_windows(value, (*path, name), problems))
            case _ if name in known:
                found[name] = value
    return found


def _ladder_step(given: JsonMap) -> LadderStep:
    settle = given.get("settle")
    return LadderStep(
        RepairStep(str(given["step"])), settle if isinstance(settle, int) else None, bool(given.get("any_time"))
    )


def _windows(given: Sequence[Json], path: tuple[str | int, ...], problems: list[Problem]) -> list[Window]:
    found = []
    for number, one in enumerate(given):
        if not isinstance(one, dict):
            continue
        name = str(one.get("timezone", "UTC"))
        try:
            found.append(Window(parse_cron(str(one["cron"])), int(str(one["duration"])), _zone(name)))
        except ValueError as error:
            problems.append(Problem((*path, number), str(error), error="HTTPBadRequest"))
    return found


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        raise ValueError(f"there is no time zone {name!r}; use a name like Europe/Vienna") from None


def _matches(pattern: str, path: str) -> bool:
    """Return True if a path, or one above it, has the pattern: segment by segment."""
    wanted, given = pattern.strip("/").split("/"), path.split("/")
    pairs = zip_longest(wanted, given[: len(wanted)])
    return all(one is not None and other is not None and fnmatchcase(other, one) for one, other in pairs)
