"""Identity of a cloud, stored with a stack.

It keeps operations from running against another cloud by mistake.
"""

import re
from functools import lru_cache
from typing import Self
from urllib.parse import urlsplit

from msgspec import Struct, ValidationError, convert

from heatlite.core.json import Json

_VERSION = re.compile(r"/v\d+(\.\d+)?$")
_DEFAULT_PORTS = frozenset({80, 443})


@lru_cache(64)  # each handler compares the same few
def _address(auth_url: str) -> str:
    url = urlsplit(auth_url)
    port = f":{url.port}" if url.port is not None and url.port not in _DEFAULT_PORTS else ""
    return f"{url.hostname or ''}{port}{_VERSION.sub('', url.path.rstrip('/'))}"


class CloudIdentity(Struct, frozen=True):
    """A project of a cloud."""

    name: str
    """The operator's name of the cloud. Two clouds are compared without it, since it may change."""
    auth_url: str
    region: str | None = None
    """None: the cloud has a single region."""
    project_id: str | None = None
    """None: unknown, since the cloud could not be reached yet."""

    def is_same(self, other: "CloudIdentity") -> bool:
        """True if both are the same cloud, as far as both are known.

        The scheme, default port and version of an auth URL are ignored: they change while the cloud stays.
        """
        ids = (self.project_id, other.project_id)
        return self._place == other._place and (None in ids or ids[0] == ids[1])

    @property
    def account(self) -> tuple[str, str | None, str | None]:
        """Address, region and project: those that have the same have the same objects."""
        return *self._place, self.project_id

    @property
    def _place(self) -> tuple[str, str | None]:
        return _address(self.auth_url), self.region

    def __str__(self) -> str:
        """``mycloud (https://keystone.example/v3, region RegionOne, project 12ab)``."""
        region = [] if self.region is None else [f"region {self.region}"]
        project = [] if self.project_id is None else [f"project {self.project_id}"]
        return f"{self.name} ({', '.join([self.auth_url, *region, *project])})"

    @classmethod
    def from_json(cls, value: Json) -> Self | None:
        """Read the stored, shown and exported form; None for any other value."""
        try:
            return convert(value, cls)
        except ValidationError:
            return None
