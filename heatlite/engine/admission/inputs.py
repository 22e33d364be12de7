"""Parts that features take in the parameters of a root stack.

A supplier turns keys of a request, or sections of its environment, into values of parameters. What it supplies takes
part in the transaction that stores them.
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from heatlite.core.json import JsonMap
from heatlite.engine.state.requests import StackRequest
from heatlite.store.records import ActionRecord, StackRecord
from heatlite.template.environment import Environment
from heatlite.template.parameters.parameters import ParameterSchema


class Inputs(Struct, frozen=True):
    """Input of a create or an update that has a body or an environment."""

    stack: StackRecord
    """The stack as it is; a new one is not stored yet."""
    request: StackRequest
    environment: Environment
    """That of the request, with its parameters."""
    kept: JsonMap | None
    """The parameters that the stack keeps unless the request changes them. None: it keeps none."""
    schemas: Mapping[str, ParameterSchema]
    """The parameters of the template."""


class Supply(Protocol):
    """Values that a feature gives to parameters."""

    @property
    def values(self) -> JsonMap:
        """The values by the names of the parameters."""

    def take(self, action: ActionRecord, stack: StackRecord) -> None:
        """Write what the values come from, in the transaction that stores them.

        Raises the error that refuses it.
        """

    def shown(self) -> JsonMap:
        """Return further keys of the plan that is shown. They are no part of its digest."""


class Supplier(Protocol):
    """Part of a feature that supplies values."""

    def supply(self, inputs: Inputs) -> Supply | None:
        """Return what the feature supplies; None if it has no part in the request.

        Raises the error that refuses it.
        """
