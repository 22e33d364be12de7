"""Types of the object store."""

import re
from contextlib import suppress
from typing import Final, TypeVar, cast
from urllib.parse import urlsplit

from heatlite.clients.cloud import CloudConflict, CloudNotFound
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.plugin import Change, CloudResource, Schema, ServiceConflict, prop
from heatlite.plugin.cloud import FOUND_BEFORE, expect_absent
from heatlite.resources.heat.signals.temp_urls import delete_object

AT_ONCE = 100
"""Maximum number of objects deleted in one step, so that other work gets its turn."""


P_co = TypeVar("P_co", bound=Schema, covariant=True)


class StoreContainer(CloudResource[P_co]):
    """Base of the types whose object is a container. The physical id is its name."""

    kind = "object_store.container"

    @property
    def container(self) -> str:
        """The name of the container."""
        return str(self.physical_id)

    def fetch(self) -> JsonMap:
        if self.physical_id is None:
            raise CloudNotFound("object_store.get_container_metadata", f"{self.name} has not been made")
        return self.map(self.service("get_container_metadata", self.container))


LISTS: Final = frozenset({"X-Container-Read", "X-Container-Write"})
METADATA: Final = "X-Container-Meta"
REFERRER: Final = re.compile(r"\.ref(err?er)?:")


def _cleaned(access: str) -> list[str]:
    """Return the parts of an access list, as the service writes them."""
    return [REFERRER.sub(".r:", one.strip()) for one in access.split(",") if one.strip()]


class ContainerProps(Schema):
    name: str | None = prop(blank=True, doc="Its name.")
    x_container_read: str | None = prop(alias="X-Container-Read", doc="The access list for reading.")
    x_container_write: str | None = prop(alias="X-Container-Write", doc="The access list for writing.")
    x_container_meta: dict[str, Json] = prop({}, alias="X-Container-Meta", api="", doc="Its metadata.")
    x_account_meta: dict[str, Json] = prop({}, alias="X-Account-Meta", api="", doc="Metadata of the whole account.")
    purge_on_delete: bool = prop(False, alias="PurgeOnDelete", api="", doc="True if its objects are deleted with it.")


class Container(StoreContainer[ContainerProps], type="OS::Swift::Container"):
    """A container for objects. The physical id is its name.

    Creation fails if the container exists already. Deletion of a container with objects requires PurgeOnDelete.
    """

    lasting_reference = True
    puts_back = frozenset({*LISTS, METADATA})

    def key(self) -> str:
        return self.props.name or self.physical_name

    def alike(self) -> list[JsonMap]:
        name = self.key()
        if self.inherits:
            return []
        with suppress(CloudNotFound):
            self.service("get_container_metadata", name)
            return [{"name": name}]
        return []

    def handle_create(self) -> Json:
        name = self.key()
        if self.data.get(FOUND_BEFORE):  # the service would treat the call as a change of the existing container
            raise CloudConflict("object_store.create_container", f"there is a container {name} already")
        self.service("create_container", name, **self._headers())
        self.physical_id = name
        if self.props.x_account_meta:
            values: JsonMap = {key: str(value) for key, value in self.props.x_account_meta.items()}
            self.service("set_account_metadata", **values)
        return None

    def _headers(self) -> JsonMap:
        lists = {name: value for name, value in self.sent(LISTS).items() if value is not None}
        metadata = {f"{METADATA}-{key}": str(value) for key, value in self.props.x_container_meta.items()}
        return {**lists, **metadata}

    def handle_update(self, change: Change) -> Json:
        """Set the headers, by the call that also creates a container."""
        self.service("create_container", self.container, **self._headers())
        return None

    def live_parts(self, thing: JsonMap) -> JsonMap:
        given, parts = self.facts.properties, super().live_parts(thing)
        for name in LISTS:
            if given.get(name) is not None:
                live = str(thing.get(name.lower(), ""))
                parts[name] = given[name] if _cleaned(str(given[name])) == _cleaned(live) else live
        if given.get(METADATA) is not None:
            metadata = as_map(given[METADATA])
            known = {key: thing.get(f"{METADATA}-{key}".lower()) for key in metadata}
            found = {key: metadata[key] if str(metadata[key]) == value else value for key, value in known.items()}
            parts[METADATA] = {key: value for key, value in found.items() if value is not None}
        return parts

    def handle_delete(self) -> Json:
        return None

    def check_delete_complete(self, token: Json) -> bool | float:
        if self.physical_id is None or self.is_passed_on:
            return True
        try:
            if self.props.purge_on_delete and self._purge():
                return False
            self.service("delete_container", self.physical_id)
        except CloudNotFound as error:
            expect_absent(self, error)
        except CloudConflict as error:
            if self.props.purge_on_delete:
                return False  # new objects have been added, or the service does not see yet that it is empty
            text = f"{error}. The container {self.physical_id} has objects: empty it, or set PurgeOnDelete"
            raise ServiceConflict(text) from error
        return True

    def _purge(self) -> bool:
        """Delete some of the objects. True if there were any."""
        found = cast(list[JsonMap], self.service("objects", self.physical_id, limit=AT_ONCE))[:AT_ONCE]
        for one in found:
            delete_object(self.cloud, str(self.physical_id), one["name"])
        return bool(found)

    def attr_DomainName(self) -> str:  # noqa: N802 - Heat's
        """The host of the object store."""
        return urlsplit(self._url).hostname or ""

    def attr_WebsiteURL(self) -> str:  # noqa: N802 - Heat's
        """The URL of the container."""
        return f"{self._url}/{self.reference()}"

    def attr_RootURL(self) -> str:  # noqa: N802 - Heat's
        """The base URL of all containers of the project."""
        return self._url

    def attr_ObjectCount(self) -> int:  # noqa: N802 - Heat's
        """The number of its objects."""
        return int(str(self.fetched.get("x-container-object-count", 0)))

    def attr_BytesUsed(self) -> int:  # noqa: N802 - Heat's
        """The total size of its objects, in bytes."""
        return int(str(self.fetched.get("x-container-bytes-used", 0)))

    def attr_HeadContainer(self) -> dict[str, Json]:  # noqa: N802 - Heat's
        """Its metadata: HTTP headers by name."""
        return self.fetched

    @property
    def _url(self) -> str:
        return str(self.service("get_endpoint")).rstrip("/")
