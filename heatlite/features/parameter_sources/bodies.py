"""Keys of bodies by which parameters get outputs of other stacks."""

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from heatlite.core.wire.base import Body

MOST = 200

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=255)]


class OutputSource(Body, frozen=True, kw_only=True):
    """An output of another stack."""

    stack: Name
    """Name or id of a root stack."""
    output: Name
    """Name of the output."""
    project: Name | None = None
    """The project of the stack; default: that of the request. The stack of another one has to grant the output."""


class SourceKeys(Struct, frozen=True, kw_only=True):
    """Keys of the definition of a stack."""

    parameter_sources: dict[str, OutputSource] | None = None
    """Names of parameters, with the output of another stack that each gets its value from.

    The value is copied, and stays until a request reads it again. A parameter cannot have a value in ``parameters``,
    too. An environment has the same as its section ``parameter_sources``.
    """
    refresh: bool | Annotated[list[Name], Meta(min_length=1, max_length=MOST)] | None = None
    """In a PATCH: read the outputs again that parameters have their values from.

    ``true``: those of all such parameters; a list: those of the named ones.
    """
