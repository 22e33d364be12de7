"""Base of the key manager types.

The service identifies objects by URL; the URL ends with the id.
"""

from typing import TypeVar

from heatlite.core.json import Json
from heatlite.plugin import CloudResource, Schema

P_co = TypeVar("P_co", bound=Schema, covariant=True)


class BarbicanResource(CloudResource[P_co]):
    """Base of the types.

    The physical id is the object's URL, because other services expect the URL.
    """

    @property
    def address(self) -> tuple[Json, ...]:
        return (id_in(self.physical_id),)


def id_in(ref: Json) -> str:
    """Return the id at the end of a URL."""
    return str(ref).rpartition("/")[2]
