"""What all types of the key manager service have in common: objects are known by a URL, which ends with their id."""

from typing import TypeVar

from heatlite.core.json import Json
from heatlite.plugin import CloudResource, Schema

P_co = TypeVar("P_co", bound=Schema, covariant=True)


class BarbicanResource(CloudResource[P_co]):
    """Base of the types; the physical id is the URL, as other services want it."""

    @property
    def address(self) -> tuple[Json, ...]:
        return (id_in(self.physical_id),)


def id_in(ref: Json) -> str:
    """The id in a URL."""
    return str(ref).rpartition("/")[2]
