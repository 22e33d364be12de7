"""Expressions: template functions and the containers around them.

Parsing returns data in which nothing is a function untouched, so that resolving it costs one type test.
"""

import logging
from abc import abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final, Protocol

from msgspec import Struct

from heatlite.core.errors import HeatliteError, Invalid, Problem, StackValidationFailed
from heatlite.core.json import size as json_size
from heatlite.template.source.loader import Path
from heatlite.template.source.problems import stated

log = logging.getLogger(__name__)


class Unknown:
    """A value that only an action will bring ("known after apply")."""

    _one: ClassVar["Unknown | None"] = None

    def __new__(cls) -> "Unknown":
        if cls._one is None:
            cls._one = super().__new__(cls)
        return cls._one

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()
OMIT: Final = object()
"""Result of an `if` without its second value: the item is left out.
Never leaves the parser."""


class Scope(Protocol):
    """Resolver of references: the live stack, or a stand-in for checks.

    Either may answer UNKNOWN.
    """

    def reference(self, name: str, /) -> object:
        """Return the value of get_resource for the resource `name`."""

    def attribute(self, name: str, attribute: str | None, path: Sequence[object], /) -> object:
        """Return the value of get_attr at `path`.

        Attribute None stands for a map of all attributes.
        """


FETCHED: Final = 4
"""Factor by which fetched values may exceed the result."""


class NoResources:
    """The scope of what must not depend on a resource: conditions, policies, names."""

    def reference(self, name: str) -> object:
        raise StackValidationFailed(f'a reference to the resource "{name}" is not possible here')

    def attribute(self, name: str, _attribute: str | None, _path: Sequence[object]) -> object:
        raise StackValidationFailed(f'an attribute of the resource "{name}" is not possible here')


class Expression:
    """Something to be resolved.

    No `abc.ABC`: a check of an instance takes five times as long, and each value of a template gets some.
    """

    __slots__ = ()

    @abstractmethod
    def result(self, scope: Scope) -> object:
        """The value now. Raises a HeatliteError where there can be none."""

    @abstractmethod
    def parts(self) -> Iterable[object]:
        """The values it is made of."""

    def refers(self) -> Iterable[str]:
        """Names of the resources that it refers to itself, parts not counted."""
        return ()


class ListOf(Expression):
    """A list with expressions in it."""

    __slots__ = ("items",)

    def __init__(self, items: list[object]) -> None:
        self.items = items

    def result(self, scope: Scope) -> list[object]:
        return [item.result(scope) if isinstance(item, Expression) else item for item in self.items]

    def parts(self) -> Iterable[object]:
        return self.items


class MapOf(Expression):
    """A map with expressions in it."""

    __slots__ = ("items",)

    def __init__(self, items: dict[str, object]) -> None:
        self.items = items

    def result(self, scope: Scope) -> dict[str, object]:
        return {key: item.result(scope) if isinstance(item, Expression) else item for key, item in self.items.items()}

    def parts(self) -> Iterable[object]:
        return self.items.values()


class UnknownMap(Expression):
    """A map of which not even the keys are known yet."""

    __slots__ = ()

    def result(self, scope: Scope) -> Unknown:  # noqa: ARG002
        return UNKNOWN

    def parts(self) -> Iterable[object]:
        return ()


class Bounded:
    """Scope with a size limit for all values, in characters of JSON.

    Fetched values count when fetched, so that no large value is built. Resolved values count at the end.
    """

    def __init__(self, scope: Scope, most: int) -> None:
        self._scope = scope
        self._most = most
        self._fetched = 0
        self.size = 0
        """Size of the values resolved so far."""

    def reference(self, name: str, /) -> object:
        return self._counted(self._scope.reference(name))

    def attribute(self, name: str, attribute: str | None, path: Sequence[object], /) -> object:
        return self._counted(self._scope.attribute(name, attribute, path))

    def resolved(self, value: object) -> object:
        """As `resolve`. Raises StackValidationFailed where it is too much."""
        result = resolve(value, self)
        size = json_size(result, self._most - self.size)
        if self.size + size > self._most:
            raise StackValidationFailed(f"The values come to more than {self._most} characters of JSON.")
        self.size += size
        return result

    def _counted(self, value: object) -> object:
        most = FETCHED * self._most
        self._fetched += json_size(value, most)
        if self._fetched > most:
            raise StackValidationFailed(f"The references bring more than {most} characters of JSON.")
        return value


def resolve(value: object, scope: Scope) -> object:
    """The plain value; plain data is returned as it is."""
    return value.result(scope) if isinstance(value, Expression) else value


def walk(value: object) -> Iterator[Expression]:
    """Every expression in `value`, outer ones first."""
    if isinstance(value, Expression):
        yield value
        for part in value.parts():
            if isinstance(part, Expression):
                yield from walk(part)


def requires(value: object) -> Iterator[str]:
    """Names of the resources that `value` refers to.

    The graph is made of `ResourceDefinition.requires`.
    """
    for expression in walk(value):
        yield from expression.refers()


def has_unknown(value: object) -> bool:
    """Test whether a resolved value contains UNKNOWN."""
    if value is UNKNOWN:
        return True
    if value is None or isinstance(value, (str, int, float)):  # most: a check of an abstract class takes longer
        return False
    if isinstance(value, Mapping):
        return any(map(has_unknown, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(has_unknown, value))
    return False


def weight(value: object) -> int:
    """Return the work of reading a value: its items, and its characters / 128."""
    if isinstance(value, str):
        return 1 + (len(value) >> 7)
    if isinstance(value, Mapping):
        return 1 + sum(map(weight, value)) + sum(map(weight, value.values()))
    if isinstance(value, (list, tuple)):
        return 1 + sum(map(weight, value))
    return 1


def select(value: object, path: Sequence[object], missing: object) -> object:
    """Follow `path` into `value`.

    Maps take keys, sequences and text an index (also as text; negative from the end).

    `missing` if a step fails; UNKNOWN from the first unknown thing on.
    """
    for step in path:
        if value is UNKNOWN or step is UNKNOWN:
            return UNKNOWN
        try:
            if isinstance(value, Mapping):
                value = value[step]
            elif isinstance(value, (list, tuple, str)) and isinstance(step, (int, str)):
                value = value[int(step)]
            else:
                return missing
        except (KeyError, IndexError, TypeError, ValueError):
            return missing
    return value


# -- functions -----------------------------------------------------------------------------------


class Bindings(Protocol):
    """Data and services for functions while they are parsed."""

    @property
    def parameters(self) -> Mapping[str, object]:
        """Typed parameter values, with pseudo parameters; UNKNOWN if not known yet."""

    @property
    def files(self) -> Mapping[str, str]:
        """Files that came with the template."""

    @property
    def mappings(self) -> Mapping[str, object]:
        """The Mappings section; HOT has none."""

    @property
    def resources(self) -> Container[str]:
        """Names of all resources of the template."""

    @property
    def enabled(self) -> Container[str]:
        """Names of the resources that no condition disables.

        All of them until that is known.
        """

    @property
    def facade(self) -> Mapping[str, object] | None:
        """Data of the resource whose type is this template.

        metadata, deletion_policy and update_policy.
        """

    def decide(self, condition: object, path: Path) -> bool | Unknown:
        """Evaluate a condition: a name, a boolean, or a condition function.

        UNKNOWN counts as true.
        """

    def charge(self, work: int) -> None:
        """Count `work` (a `weight`, of what a function looks at or makes).

        Raises StackValidationFailed.
        """


class FunctionCall(Struct, frozen=True):
    """A function as the template writes it."""

    name: str
    arguments: object
    path: Path
    """Place of the function; its own name is the last part."""
    parser: "ExpressionParser"

    def parsed(self) -> object:
        """The arguments with the functions in them parsed."""
        return self.parser.parse(self.arguments, self.path)

    @property
    def bindings(self) -> Bindings:
        return self.parser.bindings

    def fault(self, text: str) -> StackValidationFailed:
        """An error at this function; to be raised."""
        return failure(self.path, text)


def failure(path: Path, text: str) -> StackValidationFailed:
    """StackValidationFailed ``<dotted path>: <text>``; to be raised."""
    problem = stated(path, text)
    return StackValidationFailed(problem.text, problems=(problem,))


def raise_together(errors: Sequence[StackValidationFailed]) -> None:
    """Raise the first one, with the problems of all; nothing where there is none."""
    if errors:
        problems = tuple(problem for error in errors for problem in error.problems)
        raise StackValidationFailed(errors[0].message, problems=problems)


class Shape(Protocol):
    """Declared form of a function's arguments."""

    def check(self, call: FunctionCall, arguments: object, /) -> None:
        """Raise StackValidationFailed if the parsed arguments have another form."""


class Function(Expression):
    """A template function.

    A subclass checks its syntax in `__init__` and computes in `apply`.
    """

    __slots__ = ("arguments", "bindings", "name", "path")

    summary: ClassVar[str]
    """One line for people (GET /template_versions/{v}/functions)."""
    takes: ClassVar[Shape | None] = None
    """Shape of the arguments, checked when a call is parsed."""
    late: ClassVar[bool] = False
    """A fault of the syntax counts when the value is needed: an output may have one, as in Heat."""
    strict: ClassVar[bool] = True
    """UNKNOWN anywhere in the arguments makes the result UNKNOWN."""

    def __init__(self, call: FunctionCall, arguments: object) -> None:
        self.name = call.name
        self.path = call.path
        self.bindings = call.bindings
        self.arguments = arguments
        if self.takes is not None:
            self.takes.check(call, arguments)

    @classmethod
    def build(cls, call: FunctionCall) -> object:
        """Parse a call. A macro overrides this and may return anything, OMIT too."""
        return cls(call, call.parsed())

    def result(self, scope: Scope) -> object:
        return self.computed(resolve(self.arguments, scope))

    def computed(self, arguments: object) -> object:
        """The result for arguments in which UNKNOWN may stand anywhere."""
        self.bindings.charge(weight(arguments) if self.strict else 1)
        if self.strict and has_unknown(arguments):
            return UNKNOWN
        try:
            return self.apply(arguments)
        except HeatliteError:
            raise
        except Exception:  # a function that takes UNKNOWN for data may fail in any way
            if has_unknown(arguments):  # what is wrong besides shows once all is known
                return UNKNOWN
            raise

    def apply(self, arguments: object) -> object:
        """The result for resolved arguments."""
        raise NotImplementedError

    def parts(self) -> Iterable[object]:
        return (self.arguments,)


class Faulty(Expression):
    """A function with wrong syntax, which fails when it is resolved."""

    __slots__ = ("message",)

    def __init__(self, message: str) -> None:
        self.message = message

    def result(self, _scope: Scope) -> object:
        raise StackValidationFailed(self.message)

    def parts(self) -> Iterable[object]:
        return ()


Failed = tuple[Function, Invalid]
"""A function, and what it says."""


def sift(value: object, scope: Scope, failed: list[Failed]) -> object:
    """Resolve, but add failing functions to `failed` and use UNKNOWN for them.

    A function around a failed one is not called, so that each fault is reported once. An unexpected error counts as a
    fault of the template: it fails no request, and is in the log.
    """
    if not isinstance(value, Expression):
        return value
    if isinstance(value, (UnknownMap, Faulty)):
        return UNKNOWN
    if isinstance(value, ListOf):
        return [sift(item, scope, failed) for item in value.items]
    if isinstance(value, MapOf):
        return {key: sift(item, scope, failed) for key, item in value.items.items()}
    assert isinstance(value, Function)
    before = len(failed)
    arguments = sift(value.arguments, scope, failed)
    if len(failed) > before:
        return UNKNOWN
    try:
        own = type(value).result is not Function.result  # of references: they need the scope
        return value.result(scope) if own else value.computed(arguments)
    except Invalid as error:
        failed.append((value, error.with_traceback(None)))  # there may be very many, and each would keep its frames
    except RecursionError:
        raise
    except Exception as error:  # functions of other packages may raise anything
        log.exception("the function %s of a template failed", value.name)
        failed.append((value, StackValidationFailed(f"{type(error).__name__}: {error}")))
    return UNKNOWN


class ExpressionParser:
    """Turns data into data with expressions in it.

    `functions` are those of the template's version. A fault in one function is put down in `problems`, and the
    value becomes UNKNOWN, so that one fault hides no other. With `tolerant`, the faults of `late` functions are put
    down in `tolerated`, and the value becomes `Faulty`.
    """

    def __init__(self, functions: Mapping[str, type[Function]], bindings: Bindings, tolerant: bool = False) -> None:
        self.functions = functions
        self.bindings = bindings
        self.tolerant = tolerant
        self.problems: list[Problem] = []
        self.tolerated: list[Problem] = []

    def parse(self, value: object, path: Path) -> object:
        """Return `value` with its calls parsed.

        A map with one key, a function's name, is a call. A value without functions is returned as it is.
        """
        if self.is_static(value):
            return value
        parsed = self.parse_part(value, path)
        return None if parsed is OMIT else parsed

    def is_static(self, value: object) -> bool:
        """Test whether `value` contains no function."""
        if type(value) is dict:
            if len(value) == 1:
                for key in value:
                    if key in self.functions:
                        return False
            for item in value.values():
                if (type(item) is dict or type(item) is list) and not self.is_static(item):
                    return False
        elif type(value) is list:
            for item in value:
                if (type(item) is dict or type(item) is list) and not self.is_static(item):
                    return False
        return True

    def parse_part(self, value: object, path: Path) -> object:
        """Parse a value within a container; OMIT tells it to leave the item out."""
        if isinstance(value, dict):
            if len(value) == 1:
                ((name, arguments),) = value.items()
                if name in self.functions:
                    return self._call(FunctionCall(name, arguments, (*path, name), self))
            items = {}
            for key, item in value.items():
                parsed = self.parse_part(item, (*path, key))
                if parsed is not OMIT:
                    items[key] = parsed
            return MapOf(items) if any(isinstance(item, Expression) for item in items.values()) else items
        if isinstance(value, list):
            kept = [parsed for i, item in enumerate(value) if (parsed := self.parse_part(item, (*path, i))) is not OMIT]
            return ListOf(kept) if any(isinstance(item, Expression) for item in kept) else kept
        return value

    def _call(self, call: FunctionCall) -> object:
        try:
            return self.functions[call.name].build(call)
        except StackValidationFailed as error:
            if self.tolerant and self.functions[call.name].late:
                self.tolerated.extend(error.problems)
                return Faulty(error.message)
            self.problems.extend(error.problems)
            return UNKNOWN


def deferred(value: object) -> bool:
    """Test whether the value is known only after parsing, so has no type yet."""
    return value is UNKNOWN or isinstance(value, Expression)


def entries(value: object) -> list[object] | None:
    """The items of a parsed list, None if it is none."""
    if isinstance(value, ListOf):
        return value.items
    return value if isinstance(value, list) else None


def fields(value: object) -> Mapping[str, object] | None:
    """The items of a parsed map, None if it is none."""
    if isinstance(value, MapOf):
        return value.items
    return value if isinstance(value, dict) else None
