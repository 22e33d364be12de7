"""Conditions of a template, decided once while it is bound."""

from collections.abc import Container, Mapping
from typing import Final

from heatlite.core.errors import (
    Invalid,
    InvalidTemplateReference,
    Problem,
    StackValidationFailed,
    UserParameterMissing,
    wire_name,
)
from heatlite.template.dialects import TemplateVersion
from heatlite.template.expression import (
    ExpressionParser,
    Failed,
    Function,
    FunctionCall,
    NoResources,
    Unknown,
    failure,
    raise_together,
    sift,
)
from heatlite.template.source.loader import Path
from heatlite.template.source.problems import nearest, stated

MAX_WORK: Final = 3_000_000
"""Work that all functions of a template may do, in things (`weight`).

It takes about a second.

A definition in use is evaluated over and over: then each reader has it, and each resource of a walk (`refill`).
"""
WORK_EACH: Final = 25
"""Work that every evaluation adds, so that large templates have enough."""


class _NotHere(Function):
    """An ordinary function where only condition functions are allowed."""

    summary = ""
    __slots__ = ()

    @classmethod
    def build(cls, call: FunctionCall) -> object:
        raise call.fault(f'The function "{call.name}" is invalid in this context')


def _at(path: Path, error: Invalid) -> StackValidationFailed:
    """Return the error of a function in a condition. A missing name keeps its kind."""
    if isinstance(error, (InvalidTemplateReference, UserParameterMissing)):
        problem = Problem(path, error.message, error=wire_name(error))
        return StackValidationFailed(problem.text, problems=(problem,))
    return failure(path, error.message)


class Conditions:
    """The conditions section; the `Bindings` of a template's functions.

    A broken definition is put down once in `problems` and then counts as true. A condition that depends on a value
    that is not known yet is UNKNOWN.
    """

    def __init__(
        self,
        definitions: Mapping[str, object],
        dialect: TemplateVersion,
        parameters: Mapping[str, object],
        files: Mapping[str, str],
        mappings: Mapping[str, object],
        resources: Container[str],
        facade: Mapping[str, object] | None,
    ) -> None:
        self.parameters = parameters
        self.files = files
        self.mappings = mappings
        self.resources = resources
        self.enabled = resources
        self.facade = facade
        self._section = dialect.sections.get("conditions", "")
        self._definitions = definitions
        self._functions: dict[str, type[Function]] = {
            **dict.fromkeys(dialect.functions, _NotHere),
            **dialect.conditions,
        }
        self._work_left = MAX_WORK
        self._decided: dict[str, bool | Unknown] = {}
        self._open: set[str] = set()
        self.problems: list[Problem] = []
        for name in definitions:
            try:
                self._named(name)
            except RecursionError:
                self._decided.update(dict.fromkeys(self._open, True))
                self._open.clear()
                self.problems.append(stated((self._section, name), "Conditions refer to each other too deeply"))

    def charge(self, work: int) -> None:
        """Charge work as `Bindings` does. Later calls must first make up for an overdraft."""
        in_debt = self._work_left < 0
        self._work_left = min(self._work_left + WORK_EACH, MAX_WORK) - work
        if in_debt or self._work_left < 0:
            raise StackValidationFailed("The functions of the template make too much data")

    def refill(self) -> None:
        """Restore the full amount of work for another reader."""
        self._work_left = MAX_WORK

    def decide(self, condition: object, path: Path) -> bool | Unknown:
        """Evaluate a name, a boolean or a condition function.

        UNKNOWN counts as true. Raises StackValidationFailed.
        """
        if isinstance(condition, bool):
            return condition
        if isinstance(condition, str):
            if condition not in self._definitions:
                hint = nearest(condition, self._definitions) if len(self._definitions) <= 50 else ""
                problem = stated(path, f'Invalid condition "{condition}"', hint=hint)
                raise StackValidationFailed(problem.text, problems=(problem,))
            return self._named(condition)
        return self._evaluate(condition, path)

    def _named(self, name: str) -> bool | Unknown:
        if name in self._decided:
            return self._decided[name]
        path: Path = (self._section, name)
        try:
            if name in self._open:
                raise failure(path, f'Circular definition for condition "{name}"')
            self._open.add(name)
            definition = self._definitions[name]
            holds = definition if isinstance(definition, bool) else self._evaluate(definition, path)
        except StackValidationFailed as error:
            self.problems.extend(error.problems)
            holds = True
        self._open.discard(name)
        self._decided[name] = holds
        return holds

    def _evaluate(self, condition: object, path: Path) -> bool | Unknown:
        is_call = isinstance(condition, dict) and len(condition) == 1 and next(iter(condition)) in self._functions
        if not is_call:
            raise failure(path, f'Invalid condition "{condition}"')
        parser = ExpressionParser(self._functions, self)
        parsed = parser.parse(condition, path)
        if parser.problems:
            raise StackValidationFailed(parser.problems[0].text, problems=tuple(parser.problems))
        failed: list[Failed] = []
        result = sift(parsed, NoResources(), failed)
        raise_together([_at(path, error) for _, error in failed])
        if not isinstance(result, bool | Unknown):
            raise failure(path, f"The condition value should be boolean, after resolved the value is {result}")
        return result
