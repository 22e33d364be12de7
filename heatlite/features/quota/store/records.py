"""Records of reservations."""

from collections.abc import Mapping

from msgspec import Struct


class Parts(Struct, frozen=True):
    """Resources that take the same amounts, each once it has an object."""

    amounts: Mapping[str, int]
    paths: Mapping[str, str]
    """By path from the stack of the action, the id of the row of a former object; empty without one."""


class Reservation(Struct, frozen=True):
    """Room that an open action will take."""

    action_id: str
    place: str
    """Hash of what identifies the project of the cloud."""
    project: str
    """Project of the action."""
    stack_id: str
    root_id: str
    holder: str
    """Names of the action and of its stack, as messages show them."""
    amounts: Mapping[str, int]
    """By kind, the whole amount."""
    parts: tuple[Parts, ...]
    read_at: float
    """Time of the reading that it was compared with."""
