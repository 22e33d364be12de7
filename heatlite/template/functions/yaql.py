"""The function `yaql`. Its library is imported when it is first used."""

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from heatlite.core.errors import StackValidationFailed
from heatlite.core.json import heat_text
from heatlite.template.expression import Function, FunctionCall, deferred, fields
from heatlite.template.functions.arguments import Fields, brief, wrong
from heatlite.template.functions.yaql_bounds import Charge, WorkMeter, counted, text_of
from heatlite.template.patterns import CompiledPattern, Match
from heatlite.template.source.loader import verify_json_value

MAX_ITERATIONS: Final = 200
MEMORY_QUOTA: Final = 10_000
"""Bytes. Both limits are Heat's defaults."""
MAX_CHARACTERS: Final = 10_000
"""Maximum length of an expression."""

WORK_OF_QUERY: Final = 200
"""Minimum work of an evaluation, in things (`MAX_WORK`), and of parsing:"""
WORK_OF_PARSING: Final = 600
STEPS_OF_WORK: Final = 64
"""Steps of a regular expression that count as one thing."""
_GROUP: Final = re.compile(r"\\([1-9][0-9]?)")
"""A group in a text that replaces matches."""

Query = Callable[[object, Charge], object]
"""An expression that was parsed: gives its result for what ``$.data`` is."""
_meter: ContextVar[WorkMeter] = ContextVar("meter")
"""Of the evaluation at work; the library hands nothing of ours through."""


class Yaql(Function):
    summary = "The result of an expression in the query language YAQL, over the data given."
    takes = Fields(("expression",), '{"expression": text, "data": anything}', ("data",))
    __slots__ = ()

    def __init__(self, call: FunctionCall, arguments: object) -> None:
        super().__init__(call, arguments)
        given = fields(arguments)
        assert given
        expression = given["expression"]
        if not deferred(expression):
            try:
                self.query(expression)
            except StackValidationFailed as error:
                raise call.fault(error.message) from error

    def query(self, expression: object) -> Query:
        """The expression parsed. Raises StackValidationFailed."""
        if not isinstance(expression, str):
            raise wrong(f'The "expression" argument to "{self.name}" must be a string')
        if len(expression) > MAX_CHARACTERS:
            raise wrong(f'The expression of "{self.name}" has more than {MAX_CHARACTERS} characters')
        self.bindings.charge(WORK_OF_QUERY)
        with _metered(self.bindings.charge):
            return _parsed(expression)

    def apply(self, arguments: object) -> object:
        assert isinstance(arguments, Mapping)
        result = self.query(arguments["expression"])(arguments.get("data", {}), self.bindings.charge)
        try:
            verify_json_value(result)
        except ValueError as error:
            raise wrong(f'The result of "{self.name}" cannot be used: {error}: {brief(result)}') from error
        return result


@contextmanager
def _metered(charge: Charge) -> Iterator[None]:
    meter = WorkMeter(charge)
    before = _meter.set(meter)
    try:
        yield
    finally:
        _meter.reset(before)
    meter.settle()


@contextmanager
def _failures(subject: str = "") -> Iterator[None]:
    """Turn errors of the library into StackValidationFailed."""
    try:
        yield
    except StackValidationFailed:
        raise
    except Exception as error:  # a parser and an expression may fail in any way that Python knows
        raise wrong(f"{subject or type(error).__name__}: {text_of(error)}") from error


@functools.lru_cache(maxsize=256)
def _parsed(expression: str) -> Query:
    _meter.get().charge(WORK_OF_PARSING + 10 * len(expression))
    with _failures(f"Bad expression {brief(expression)}"):
        return _language()(expression)


@functools.cache
def root_context() -> Any:  # the library has no types
    """The functions of the library, with all that they do counted. Raises ImportError."""
    import yaql

    return _bounded(yaql.create_context(context=_counting_context()))


@functools.cache
def _language() -> Callable[[str], Query]:
    """The parser, made once: that takes a tenth of a second."""
    try:
        from yaql.language.factory import YaqlFactory
    except ImportError:
        raise wrong(
            'The function "yaql" needs the library yaql: in the folder of heatlite\'s source, pip install \'.[server]\''
        ) from None
    options = {"yaql.limitIterators": MAX_ITERATIONS, "yaql.memoryQuota": MEMORY_QUOTA}
    engine = YaqlFactory().create(options=options)
    root = root_context()

    def parse(expression: str) -> Query:
        statement = engine(expression)

        def evaluate(data: object, charge: Charge) -> object:
            with _failures(), _metered(charge):
                return _plain(statement.evaluate({"data": data}, root.create_child_context()))

        return evaluate

    return parse


def _counting_context() -> Any:  # the library has no types
    """Return a context that counts the work of functions registered in it."""
    from yaql.language import contexts, conventions, specs, yaqltypes

    class Counting(contexts.Context):  # type: ignore[misc]  # the library has no types
        def register_function(self, spec: Any, *names: Any, exclusive: bool = False, **options: Any) -> None:
            """Register it with counting, and with `Regex` in place of re.Pattern."""
            if not isinstance(spec, specs.FunctionDefinition):
                spec = specs.get_function_definition(spec, *names, convention=self.convention, **options)
            own = spec.clone()
            own.payload = counted(own.name, own.payload, _meter.get)
            for parameter in own.parameters.values():
                if getattr(parameter.value_type, "python_type", None) is re.Pattern:
                    parameter.value_type = yaqltypes.PythonType(Regex, nullable=False)
            super().register_function(own, exclusive=exclusive)

    return Counting(convention=conventions.CamelCaseConvention())


class Regex:
    """Result of the function `regex`: a pattern whose matching counts as work."""

    def __init__(self, text: str, flags: str = "", captures: bool = True) -> None:
        self._program = CompiledPattern(text, _charge_steps, flags, captures)

    def __repr__(self) -> str:
        return f"regex({self._program.text!r})"

    def search(self, text: str) -> Match | None:
        """Return the first match in the text, or None. Raises TooMuchWork."""
        return self._program.search(text)

    def finditer(self, text: str, most: int = 0) -> Iterator[Match]:
        """Iterate over the first `most` matches, or over all. Raises TooMuchWork."""
        return itertools.islice(self._program.finditer(text), most or None)

    def split(self, text: str, most: int = 0) -> list[str | None]:
        """Split the text at the first `most` matches, or at all. Raises TooMuchWork."""
        parts: list[str | None] = []
        end = 0
        for match in self.finditer(text, most):
            parts += [text[end : match.start()], *match.groups()]
            end = match.end()
        return [*parts, text[end:]]

    def sub(self, new: str | Callable[[Match], str], text: str, most: int = 0) -> str:
        """Replace the first `most` matches, or all; ``\\1`` in a new text is a group.

        Raises TooMuchWork.
        """
        if isinstance(new, str):
            _meter.get().charge((len(new) + 1) * (len(text) + 1) // 128)
            new = functools.partial(_expanded, new)
        parts: list[str] = []
        end = 0
        for match in self.finditer(text, most):
            parts += [text[end : match.start()], new(match)]
            end = match.end()
        return "".join([*parts, text[end:]])


def _charge_steps(steps: int) -> None:
    """Count the steps of a pattern as work."""
    _meter.get().charge(1 + steps // STEPS_OF_WORK)


def _expanded(new: str, match: Match) -> str:
    return _GROUP.sub(lambda found: match.group(int(found[1])) or "", new)


def _bounded(root: Any) -> Any:  # the library has no types
    """Return the library's functions, with those that read a pattern on `Regex`."""
    from yaql.language import specs, yaqltypes

    def regex(pattern: str, ignore_case: bool = False, multi_line: bool = False, dot_all: bool = False) -> Regex:
        return Regex(pattern, "i" * ignore_case + "m" * multi_line + "s" * dot_all)

    def is_regex(value: object) -> bool:
        return isinstance(value, Regex)

    def matches(string: str, regexp: str) -> bool:
        return Regex(regexp, captures=False).search(string) is not None

    def matching(string: str, pattern: str) -> bool:
        return matches(string, pattern)

    def not_matching(string: str, pattern: str) -> bool:
        return not matches(string, pattern)

    context = root.create_child_context()
    text = yaqltypes.String()
    for function, parameters, mark in (
        (regex, {"pattern": text}, specs.name("regex")),
        (is_regex, {}, specs.name("isRegex")),
        (matches, {"string": text, "regexp": text}, specs.method),
        (matching, {"string": text, "pattern": text}, specs.name("#operator_=~")),
        (not_matching, {"string": text, "pattern": text}, specs.name("#operator_!~")),
    ):
        definition: Any = function  # a function, then a definition of the library
        for name, kind in parameters.items():
            definition = specs.parameter(name, kind)(definition)
        context.register_function(mark(definition))
    return context


def _plain(value: object) -> object:
    """A result as JSON has it: sets and tuples as lists, keys as text."""
    if isinstance(value, Mapping):
        return {_plain_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return value


def _plain_key(key: object) -> object:
    return heat_text(key) if key is None or isinstance(key, (bool, int, float)) else key
