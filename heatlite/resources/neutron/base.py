"""What all types of the network service have in common."""

import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar, TypeVar, cast

from heatlite.clients.cloud import Cloud
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, CloudNotFound, CloudResource, Resource, Schema, prop
from heatlite.plugin.cloud import covers
from heatlite.template.expression import UNKNOWN

P_co = TypeVar("P_co", bound=Schema, covariant=True)


class ValueSpecs(Schema):
    """For types that take what heatlite does not know."""

    value_specs: dict[str, Json] = prop({}, update=True, api="", doc="Further attributes, sent as they are.")


class Tagged(Schema):
    """For types whose objects have tags."""

    tags: list[str] | None = prop(update=True, api="", doc="Tags of the object.")


class NeutronResource(CloudResource[P_co]):
    """Base of the types: what `value_specs` says is sent as it is, and tags have a call of their own.

    Names are not unique: an object whose name the template gives carries its mark in the description.
    """

    kept_when_well = True
    shown: ClassVar[Mapping[str, tuple[object, str]]] = {}
    described: ClassVar[bool] = True
    """Whether the objects have a description."""
    named: ClassVar[bool] = True
    """Whether the objects have a name."""
    WORKING: ClassVar[frozenset[str]] = frozenset({"ACTIVE", "DOWN"})
    """The values of `status` of what is made."""

    def create_args(self) -> JsonMap:
        return {**self.sent(), **self._specs()}

    def update_args(self, change: Change) -> JsonMap:
        args = super().update_args(change)
        if "value_specs" in change.changed:
            args.update(self._specs())
        return args

    def _specs(self) -> JsonMap:
        specs = self.facts.properties.get("value_specs")
        return dict(specs) if isinstance(specs, dict) else {}

    def identity(self) -> JsonMap:
        given = {**self.facts.properties, **self._specs()}
        if self.named and given.get("name") is None:
            return {"name": self.physical_name}
        mark: JsonMap = {"name": given["name"]} if self.named else {}
        if self.described:
            mark["description"] = self.physical_name if given.get("description") is None else given["description"]
        return mark

    def check_create_complete(self, token: Json) -> bool | float:
        done = super().check_create_complete(token)
        if done is True:
            self.finish()
        return done

    def finish(self) -> None:
        """What a new object is given by further calls; it may have been found after a crash, and have some of it."""
        if self.facts.properties.get("tags"):
            self._set_tags()

    def check_delete_complete(self, token: Json) -> bool | float:
        return True

    def handle_update(self, change: Change) -> Json:
        token = super().handle_update(change)
        if "tags" in change.changed:
            self._set_tags()
        return token

    def _set_tags(self) -> None:
        tags = self.facts.properties.get("tags") or []
        self.service("set_tags", self.noun, self.physical_id, tags)


class Unnamed(NeutronResource[P_co]):
    """Base of the types whose objects have neither name nor description: they are known by what they are made with."""

    named = False
    described = False

    def alike(self) -> list[JsonMap]:
        mark = self.create_args()
        found = cast(list[JsonMap], self.service(self.plural or f"{self.noun}s", *self.whole))
        return [one for one in found if covers(one, mark)]


class Link(Unnamed[P_co]):
    """Base of the types that are no object of the service's, but something between objects: made once more, one is
    the same. Its id says what it connects."""

    def handle_delete(self) -> Json:
        if self.physical_id is not None and not self.bequeaths:
            self.free()
            with suppress(CloudNotFound):
                self.undo(self.physical_id)
        return None

    def let_go(self, gone: Resource[Schema]) -> None:
        self.handle_delete()

    def undo(self, physical_id: str) -> None:
        """Take it back. Raises CloudNotFound where it is not there any more."""
        raise NotImplementedError


def places(cloud: Cloud, network: Json) -> list[Json]:
    """A subnet of each version, for a port that has lost its addresses: only to a new one the service gives them."""
    found = cast(list[JsonMap], cloud.call("network.subnets", network_id=network))
    return [{"subnet_id": key} for key in {one["ip_version"]: one["id"] for one in reversed(found)}.values()]


def overlap(first: object, second: object) -> bool:
    """Whether some of the addresses in two lists of prefixes are the same; what is not known yet has none."""
    known = [one if isinstance(one, list) else [] for one in (first, second)]
    nets = [[ipaddress.ip_interface(text).network for text in one if isinstance(text, str)] for one in known]
    return any(one.version == other.version and one.overlaps(other) for one in nets[0] for other in nets[1])


def asked(properties: Mapping[str, object], name: str) -> object:
    """A property as `comes_after` sees it, also by its old name; None where it is not given, or not known."""
    value = properties.get(name)
    if value is None:
        value = properties.get(f"{name}_id")
    return None if value is UNKNOWN else value


def same(own: Mapping[str, object], mine: str, other: Mapping[str, object], its: str) -> bool:
    """Whether two properties, as `comes_after` sees them, name the same thing."""
    value = asked(own, mine)
    return value is not None and value == asked(other, its)
