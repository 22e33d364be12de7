"""Problems: how they are worded, ordered, located, and raised."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

from msgspec.structs import replace

from heatlite.core import errors
from heatlite.core.errors import HeatliteError, Invalid, Problem
from heatlite.template.source.loader import Path, SourceText

_RAISED: dict[str, type[HeatliteError]] = {
    leaf.__name__: leaf
    for leaf in (
        errors.HTTPBadRequest,
        errors.StackValidationFailed,
        errors.InvalidSchemaError,
        errors.InvalidTemplateReference,
        errors.InvalidTemplateVersion,
        errors.UnknownUserParameter,
        errors.UserParameterMissing,
        errors.CircularDependencyException,
        errors.InvalidBreakPointHook,
        errors.InvalidExternalResourceDependency,
        errors.RequestLimitExceeded,
        errors.ResourceTypeUnavailable,
        errors.NotSupported,
    )
}


MAX_HINTS = 30


class ValidationPhase(IntEnum):
    """Phase of validation.

    Heat reports the first problem of the lowest phase.
    """

    SECTIONS = 1
    DEFINITIONS = 2
    UNKNOWN_PARAMETERS = 3
    MISSING_PARAMETERS = 4
    PARAMETER_SCHEMAS = 5
    PARAMETER_VALUES = 6
    GROUPS = 7
    CONDITIONS = 8
    TYPES = 9
    NAMES = 10
    DEPENDENCIES = 11
    RESOURCES = 12
    OUTPUTS = 13


class Findings:
    """Problems as they are found, in any order."""

    def __init__(self, found: Iterable[tuple[ValidationPhase, Problem]] = (), hints: int = MAX_HINTS) -> None:
        self._found = list(found)
        self._hints = hints

    def add(self, phase: ValidationPhase, problem: Problem) -> None:
        self._found.append((phase, problem))

    def copy(self) -> "Findings":
        return Findings(self._found, self._hints)

    def nearest(self, name: str, known: Iterable[str]) -> str:
        """Return `nearest`, for the first MAX_HINTS names only.

        Each call takes milliseconds in a large template.
        """
        return nearest(name, known) if self.may_hint() else ""

    def may_hint(self) -> bool:
        """Count a hint. Return False after MAX_HINTS."""
        self._hints -= 1
        return self._hints >= 0

    def ordered(self) -> list[Problem]:
        """Heat's order; within a phase as found."""
        return [problem for _, problem in sorted(self._found, key=lambda item: item[0])]


def dotted(path: Path) -> str:
    """``resources.a.properties.list[2]``, as messages write it."""
    return Problem(path, "").where


def stated(path: Path, text: str, prefix: str = "", *, error: str = "StackValidationFailed", hint: str = "") -> Problem:
    """Return a problem ``<prefix>: <dotted path>: <text>``, without empty parts."""
    message = ": ".join(part for part in (prefix, dotted(path), text) if part)
    return Problem(path, message, hint=hint, error=error)


def nearest(name: str, known: Iterable[str]) -> str:
    """``did you mean "x"?``, or nothing where no known name is near."""
    found = difflib.get_close_matches(name, known, n=1)
    return f'did you mean "{found[0]}"?' if found else ""


def raise_first(problems: Sequence[Problem]) -> None:
    """Raise the error that the first problem names, with all of them in it.

    Warnings raise nothing.
    """
    first = next((problem for problem in problems if problem.severity == "error"), None)
    if first is None:
        return
    leaf = _RAISED[first.error]
    if issubclass(leaf, Invalid):
        raise leaf(first.text, problems=tuple(problems))
    raise leaf(first.text)


def locate(problems: Iterable[Problem], sources: Mapping[str, SourceText]) -> list[Problem]:
    """Add line and column to problems whose source, by name, came as text."""
    located = []
    for problem in problems:
        source = sources.get(problem.source)
        if source is not None and not problem.line:
            line, column = source.locate(problem.path)
            problem = replace(problem, line=line, column=column)
        located.append(problem)
    return located
