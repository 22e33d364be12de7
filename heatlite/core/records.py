"""Records: dataclasses with slots that are quick to define, to make and to copy.

A command imports some 200 of them. `dataclasses.dataclass` compiles six methods for each, 0.9 ms of processor time;
`record` compiles one and shares the others.

Only the type checker refuses to change a record. A check in Python (`__setattr__`) makes the constructor eight times
as slow: the operations of a large stack are a tenth slower.
"""

import dataclasses
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["changed", "record", "shallow"]

if TYPE_CHECKING:  # the type checker knows the fields
    from dataclasses import dataclass as record
    from dataclasses import replace as changed
else:

    def changed(value: Any, **changes: Any) -> Any:
        """Return a copy of a dataclass instance with other values of some fields.

        `dataclasses.replace` does the same in four times the time, field by field. It counts for rows of large stacks.
        """
        return _copier(type(value))(value, **changes)

    def record(*, frozen: bool, slots: bool) -> Callable[[type], Any]:
        """Return the decorator for ``dataclass(frozen=True, slots=True)``.

        Both arguments have to be True.
        """
        assert frozen and slots
        return _record


def _record(cls: type) -> Any:
    given = cls.__dict__
    kind: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    for method in (_repr, _eq, _hash):
        name = f"__{method.__name__.strip('_')}__"
        if name not in given:
            setattr(kind, name, method)
    kind.__init__ = _init(kind)
    return kind


def _init(kind: type) -> Callable[..., None]:
    """Compile the constructor."""
    scope: dict[str, Any] = {"_unset": object()}
    parameters, lines = ["self"], []
    for field in dataclasses.fields(kind):
        name, value = field.name, field.name
        if field.default is not dataclasses.MISSING:
            scope[f"_default_{name}"] = field.default
            parameters.append(f"{name}=_default_{name}")
        elif field.default_factory is not dataclasses.MISSING:
            scope[f"_make_{name}"] = field.default_factory
            parameters.append(f"{name}=_unset")
            value = f"_make_{name}() if {name} is _unset else {name}"
        else:
            parameters.append(name)
        lines.append(f" self.{name} = {value}\n")
    if hasattr(kind, "__post_init__"):
        lines.append(" self.__post_init__()\n")
    exec(f"def __init__({', '.join(parameters)}):\n{''.join(lines) or ' pass'}", scope)
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{kind.__qualname__}.__init__"
    return init


@cache
def _copier(kind: Any) -> Callable[..., Any]:
    """Compile the function that copies an instance; it takes the changes by keyword."""
    names = [field.name for field in dataclasses.fields(kind)]
    parameters = "".join(f", {name}=_unset" for name in names)
    values = ", ".join(f"_value.{name} if {name} is _unset else {name}" for name in names)
    scope: dict[str, Any] = {"_unset": object(), "_kind": kind}
    exec(f"def copy(_value, /{parameters}):\n return _kind({values})", scope)
    copy: Callable[..., Any] = scope["copy"]
    return copy


def _repr(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: object, other: object) -> object:
    kind: Any = type(self)
    values_of = _compared(kind)
    if type(other) is not kind:
        return NotImplemented
    return values_of(self) == values_of(other)


def _hash(self: object) -> int:
    kind: Any = type(self)
    return hash(_compared(kind)(self))


@cache
def _compared(kind: Any) -> Callable[[object], object]:
    """Return the function that reads the fields that equality compares."""
    names = [field.name for field in dataclasses.fields(kind) if field.compare]
    return attrgetter(*names) if names else type


def shallow(value: Any) -> dict[str, Any]:
    """Return the fields of a record by name.

    `dataclasses.asdict` copies deeply, which takes longer.
    """
    kind: Any = type(value)
    names, values_of = _layout(kind)
    return dict(zip(names, values_of(value), strict=True))


@cache
def _layout(kind: Any) -> "tuple[list[str], attrgetter[Any]]":
    names = [field.name for field in dataclasses.fields(kind)]
    return names, attrgetter(*names)
