"""Answers about values of other stacks.

The command line takes its columns from them.
"""

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Struct

from heatlite.core.wire.base import Answer, Time, column


class SourceState(StrEnum):
    """The value of a parameter, compared with the output that it comes from."""

    CURRENT = "current"
    BEHIND = "behind"
    """The output has another value by now, or none."""
    GONE = "gone"
    """The stack with the output was deleted."""


class ShownSource(Answer, frozen=True):
    """A parameter with a value from another stack."""

    parameter: Annotated[str, column(1)]
    stack_name: Annotated[str, column(2)]
    """Name of the stack that it was read from."""
    stack_id: str
    """Id of it. Another stack of the name is not meant."""
    output: Annotated[str, column(3)]
    read_at: Annotated[Time, column(5)]
    """Time of the reading."""
    action_id: str
    """The action that began with the value."""
    state: Annotated[SourceState, column(4)]
    """``current``: the output has this value; ``behind``: it has another one or none; ``gone``: its stack was deleted.
    """


class ShownReader(Answer, frozen=True):
    """A parameter of another stack that has the value of an output."""

    stack_name: Annotated[str, column(1)]
    stack_id: str
    project: Annotated[str, column(4)]
    parameter: Annotated[str, column(2)]
    output: Annotated[str, column(3)]
    read_at: Annotated[Time, column(5)]
    """Time of the reading."""


class OutputEffect(StrEnum):
    """Effect of an operation on an output that others read."""

    REMOVED = "removed"
    CHANGED = "changed"
    """It gets another value, or perhaps another one."""


class AffectedReader(Struct, frozen=True):
    """A parameter of another stack that has the value of an output."""

    stack_name: str
    stack_id: str
    project: str
    parameter: str
    output: str
    effect: OutputEffect


class SourceChange(Struct, frozen=True):
    """A parameter that a plan gives another value of an output.

    Hidden values are masked.
    """

    parameter: str
    stack_name: str
    stack_id: str
    output: str
    old: Any
    """The present value; ``null``: there is none."""
    new: Any
