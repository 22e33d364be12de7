"""Base of Amazon's types."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, TypeVar, cast

from msgspec.structs import replace

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, CloudResource, Schema, prop
from heatlite.plugin.needs import Find, Need

P_co = TypeVar("P_co", bound=Schema, covariant=True)


class Tag(Schema):
    key: str = prop(alias="Key", doc="The key.")
    value: str = prop(alias="Value", doc="The value.")


def tagged(tags: list[Tag] | None) -> JsonMap:
    """Return tags as a map."""
    return {tag.key: tag.value for tag in tags or []}


class Mapped(CloudResource[P_co]):
    """Base of types that are another type with other property names.

    The properties are translated, and the other type does the work.
    """

    mapped: ClassVar[type[CloudResource[Schema]]]
    """The other type."""

    @classmethod
    def translated(cls, given: Mapping[str, object]) -> JsonMap:
        """Return coerced properties by the names of the other type.

        UNKNOWN may occur as a value.
        """
        raise NotImplementedError

    @classmethod
    def needs(cls, given: Mapping[str, object], find: Find) -> Iterable[Need]:
        return cls.mapped.needs(cls.translated(given), find)

    @property
    def other(self) -> CloudResource[Schema]:
        """The resource as the other type. Both share one `data`."""
        if self._other is None:
            before = self.facts.before
            facts = replace(
                self.facts,
                properties=self._coerced(self.facts.properties),
                before=None if before is None else self._coerced(before),
            )
            self._other = self.mapped(facts)
        self._other.physical_id = self.physical_id
        return self._other

    _other: CloudResource[Schema] | None = None

    def _coerced(self, given: Mapping[str, object]) -> JsonMap:
        names = {name: value for name, value in self.translated(given).items() if value is not None}
        return self.mapped.schema.coerce(names, whole=False)  # an external object need not be described

    def _changed(self, change: Change) -> Change:
        before, after = self._coerced(change.before), self._coerced(change.after)
        return Change(self.mapped.schema.diff(before, after), before, after, change.metadata_changed)

    def fetch(self) -> JsonMap:
        return self.other.fetch()

    def find(self) -> str | None:
        return self.other.find()

    def needs_replace(self, change: Change) -> bool:
        return self.other.needs_replace(self._changed(change))

    def live_properties(self) -> Mapping[str, Json] | None:
        """Return {} if the object exists, else None.

        Its values have the names of the other type, so they are not compared.
        """
        return None if self.other.live_properties() is None else {}

    @contextmanager
    def as_other(self) -> Iterator[CloudResource[Schema]]:
        """Yield the resource as the other type; afterwards take over its physical id."""
        other = self.other
        try:
            yield other
        finally:
            self.physical_id = other.physical_id

    def handle_create(self) -> Json:
        with self.as_other() as other:
            return other.handle_create()

    def check_create_complete(self, token: Json) -> bool | float:
        with self.as_other() as other:
            return other.check_create_complete(token)

    def handle_update(self, change: Change) -> Json:
        return self.other.handle_update(self._changed(change))

    def check_update_complete(self, token: Json) -> bool | float:
        return self.other.check_update_complete(token)

    def handle_delete(self) -> Json:
        return self.other.handle_delete()

    def check_delete_complete(self, token: Json) -> bool | float:
        return self.other.check_delete_complete(token)

    def handle_check(self) -> Json:
        return self.other.handle_check()


def leads_to_machine(resource: CloudResource[Schema], address: JsonMap) -> bool:
    """Test whether a floating IP leads to a port of a machine.

    A machine that has got another port has left the old one, which may be there still.
    """
    if address.get("port_id") is None:
        return False
    try:
        return bool(resource.map(resource.cloud.call("network.get_port", address["port_id"])).get("device_id"))
    except CloudNotFound:
        return False


def first_port(resource: CloudResource[Schema], server: str) -> str:
    """Return the id of a server's first port. Raises CloudNotFound."""
    ports = cast(list[JsonMap], resource.cloud.call("network.ports", device_id=server))
    if not ports:
        raise CloudNotFound("network.ports", f"server {server} has no port")
    return str(ports[0]["id"])
