"""Records of readings."""

from msgspec import Struct

from heatlite.core.json import Json


class Reading(Struct, frozen=True):
    """A value that a parameter of a stack got from an output of another one.

    It holds as long as the parameter has this value.
    """

    id: str
    project: str
    reader_id: str
    """Id of the root stack with the parameter."""
    parameter: str
    owner_id: str
    """Id of the root stack with the output. It may be gone."""
    owner_name: str
    """Its name when it was read."""
    output: str
    value: Json
    read_at: float
    action_id: str
    """The action that began with the value."""
