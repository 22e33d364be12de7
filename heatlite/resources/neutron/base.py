"""Base of the network service types."""

import ipaddress
from collections.abc import Mapping
from typing import ClassVar, Final, TypeVar, cast

from heatlite.clients.cloud import Cloud, CloudError
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.plugin import Change, CloudNotFound, CloudResource, Resource, Schema, prop
from heatlite.plugin.cloud import UNFINISHED, expect_absent
from heatlite.plugin.naming import is_as_requested, keys_as_given
from heatlite.template.expression import UNKNOWN

PENDING: Final = "PENDING_"
"""Begin of the states in which a service refuses a change. Its refusal names the state."""
PATIENCE: Final = 300.0
"""Seconds until a refused change fails; an agent reports once a minute."""
AGAIN: Final = 2.0
"""Seconds until a refused change is repeated."""
UPDATE: Final = "update"
"""Key of `data` for a change that the service has not accepted yet."""

TEXTS: Final = frozenset({"description", "dns_name", "dns_domain"})
"""Attributes that are an empty text without a value: the service refuses null."""
UNSETTABLE: Final = frozenset({
    "default_prefixlen", "default_quota", "max_prefixlen", "min_prefixlen", "port_security_enabled",
    "propagate_uplink_status", "shared", "stateful",
})  # fmt: skip
"""Attributes that cannot lose their value: without one in the template they stay unchanged."""

P_co = TypeVar("P_co", bound=Schema, covariant=True)


class ValueSpecs(Schema):
    """Properties of types that accept attributes unknown to heatlite."""

    value_specs: dict[str, Json] = prop({}, update=True, api="", doc="Further attributes, sent unchanged.")


class Tagged(Schema):
    """Properties of types whose objects have tags."""

    tags: list[str] | None = prop(update=True, api="", doc="Tags of the object.")


class NeutronResource(CloudResource[P_co]):
    """Base of the types: sends `value_specs` unchanged, sets tags separately.

    Names are not unique: if the template gives the name, the description holds the mark that identifies the object.
    """

    kept_when_well = True
    shown: ClassVar[Mapping[str, tuple[object, str]]] = {}
    described: ClassVar[bool] = True
    """True if the objects have a description."""
    named: ClassVar[bool] = True
    """True if the objects have a name."""
    WORKING: ClassVar[frozenset[str]] = frozenset({"ACTIVE", "DOWN"})
    """Values of `status` that mean that the object has been created."""

    def create_args(self) -> JsonMap:
        return {**self.sent(), **self._specs()}

    def update_args(self, change: Change) -> JsonMap:
        args = {
            name: "" if value is None and name in TEXTS else value
            for name, value in super().update_args(change).items()
            if value is not None or name not in UNSETTABLE
        }
        if "value_specs" in change.changed:
            args.update(self._specs())
        return args

    def _specs(self) -> JsonMap:
        return {**as_map(self.facts.properties.get("value_specs"))}

    def identity(self) -> JsonMap:
        given = {**self.facts.properties, **self._specs()}
        if self.named and given.get("name") is None:
            return {"name": self.physical_name}
        mark: JsonMap = {"name": given["name"]} if self.named else {}
        if self.described:
            mark["description"] = self.physical_name if given.get("description") is None else given["description"]
        return mark

    def handle_create(self) -> Json:
        if self.is_to_finish():
            self.data[UNFINISHED] = True
        return super().handle_create()

    def needs_check(self, verb: str, token: Json) -> bool:
        if verb == "create" and type(self).check_create_complete is NeutronResource.check_create_complete:
            return self.is_to_finish() or not self.says_ready(token)
        return super().needs_check(verb, token)

    def check_create_complete(self, token: Json) -> bool | float:
        done = super().check_create_complete(token)
        if done is True:
            self.finish()
            self.data.pop(UNFINISHED, None)
        return done

    def needs_replace_failed(self) -> bool:
        return UNFINISHED in self.data or super().needs_replace_failed()

    def is_to_finish(self) -> bool:
        """Test whether `finish` makes calls."""
        return bool(self.facts.properties.get("tags"))

    def finish(self) -> None:
        """Complete a new object by further calls.

        After a crash, some of them may have been made already.
        """
        if self.facts.properties.get("tags"):
            self._set_tags()

    check_delete_complete = Resource.check_delete_complete  # the service deletes at once

    def handle_update(self, change: Change) -> Json:
        token = super().handle_update(change)
        if "tags" in change.changed:
            self._set_tags()
        return token

    def live_parts(self, thing: JsonMap) -> JsonMap:
        parts = super().live_parts(thing)
        if self.facts.properties.get("tags") is not None and thing.get("tags") is not None:
            parts["tags"] = self.listed("tags", cast(list[Json], thing["tags"]))
        if specs := self._specs():
            # Keys that the service does not show cannot be compared.
            known = {key: value if thing.get(key) is None else thing[key] for key, value in specs.items()}
            parts["value_specs"] = keys_as_given(specs, known, _is_sent_as)
        return parts

    def _set_tags(self) -> None:
        tags = self.facts.properties.get("tags") or []
        self.service("set_tags", self.noun, self.physical_id, tags)


class HostedResource(NeutronResource[P_co]):
    """Base of the types whose objects are served by agents that one may choose."""

    agent_ids: ClassVar[str]
    """The property with the ids of the agents."""
    agent_calls: ClassVar[tuple[str, str, str]]
    """Calls that list the agents of an object, and that add and remove one."""

    def is_to_finish(self) -> bool:
        return super().is_to_finish() or bool(self.facts.properties.get(self.agent_ids))

    def finish(self) -> None:
        super().finish()
        if self.facts.properties.get(self.agent_ids):
            self._set_agents()

    def handle_update(self, change: Change) -> Json:
        token = super().handle_update(change)
        if self.agent_ids in change.changed:
            self._set_agents()
        return token

    def live_parts(self, thing: JsonMap) -> JsonMap:
        parts = super().live_parts(thing)
        if self.facts.properties.get(self.agent_ids) is not None:
            parts[self.agent_ids] = self.listed(self.agent_ids, self._agents())
        return parts

    def _agents(self) -> list[str]:
        """Return the ids of the agents that serve the object."""
        return [str(one["id"]) for one in cast(list[JsonMap], self.service(self.agent_calls[0], self.physical_id))]

    def _set_agents(self) -> None:
        _, add, remove = self.agent_calls
        wanted = set(cast(list[str], self.facts.properties.get(self.agent_ids) or ()))
        now = set(self._agents())
        for agent in sorted(now - wanted):
            self.service(remove, agent, self.physical_id)
        for agent in sorted(wanted - now):
            self.service(add, agent, self.physical_id)


class AttendedResource(NeutronResource[P_co]):
    """Base of the types whose objects are PENDING_… while an agent works on them.

    Meanwhile the service refuses changes. Since that state passes, the request is repeated.
    """

    def handle_update(self, change: Change) -> Json:
        until = self.facts.now() - self.facts.suspended() + PATIENCE
        self.data[UPDATE] = {"args": self.update_args(change), "until": until}
        self._update()
        return None

    def check_delete_complete(self, token: Json) -> bool | float:
        return super(NeutronResource, self).check_delete_complete(token)

    def check_update_complete(self, token: Json) -> bool | float:
        if UPDATE in self.data:
            self._update()
            return AGAIN
        return super().check_update_complete(token)

    def _update(self) -> None:
        """Send the change. It stays in `data` if the agent is at work.

        Raises CloudError, ReplaceResource.
        """
        waits = cast(JsonMap, self.data[UPDATE])
        args, until = cast(JsonMap, waits["args"]), cast(float, waits["until"])
        try:
            if args:
                self.service(f"update_{self.noun}", *self.address, **args)
        except CloudError as error:
            if PENDING not in error.reason or self.facts.now() - self.facts.suspended() >= until:
                raise
            self.refused()
            return
        del self.data[UPDATE]

    def refused(self) -> None:
        """React to the refusal of a change.

        Raises ReplaceResource for an object that no agent will finish.
        """


class Unnamed(NeutronResource[P_co]):
    """Base of the types whose objects have neither name nor description.

    Such an object is found by the attributes that it was created with.
    """

    named = False
    described = False

    def alike(self) -> list[JsonMap]:
        mark = self.create_args()
        found = cast(list[JsonMap], self.service(self.plural or f"{self.noun}s", *self.whole))
        return [one for one in found if is_as_requested(one, mark)]


class Link(Unnamed[P_co]):
    """Base of the types that connect two objects without an object of their own.

    Creation is idempotent. The physical id names the connected objects.
    """

    def handle_delete(self) -> Json:
        if self.physical_id is not None and not self.is_passed_on:
            self.free()
            try:
                self.undo(self.physical_id)
            except CloudNotFound as error:
                expect_absent(self, error)
        return None

    def handle_update(self, change: Change) -> Json:
        if change.changed:
            return super().handle_update(change)
        try:
            self.fetch()
        except CloudNotFound:
            self.handle_create()  # `detach_from` has disconnected them
        return None

    def detach_from(self, gone: Resource[Schema]) -> None:
        self.handle_delete()

    def undo(self, physical_id: str) -> None:
        """Disconnect the objects. Raises CloudNotFound if they are not connected."""
        raise NotImplementedError


def places(cloud: Cloud, network: Json) -> list[Json]:
    """Return one subnet per IP version as fixed IPs for a port without addresses.

    The service assigns addresses by itself only to new ports.
    """
    found = cast(list[JsonMap], cloud.call("network.subnets", network_id=network))
    return [{"subnet_id": key} for key in {one["ip_version"]: one["id"] for one in reversed(found)}.values()]


def _is_sent_as(live: Json, given: Json) -> bool:
    """Return True if a service shows a given value, perhaps as another type."""
    return is_as_requested(live, given) or str(live).lower() == str(given).lower()


def overlap(first: object, second: object) -> bool:
    """True if two lists of prefixes share an address; unknown prefixes are ignored."""
    known = [one if isinstance(one, list) else [] for one in (first, second)]
    nets = [[ipaddress.ip_interface(text).network for text in one if isinstance(text, str)] for one in known]
    return any(one.version == other.version and one.overlaps(other) for one in nets[0] for other in nets[1])


def asked(properties: Mapping[str, object], name: str) -> object:
    """Return a property as `comes_after` sees it, also by its old name.

    None if it is missing or unknown.
    """
    value = properties.get(name)
    if value is None:
        value = properties.get(f"{name}_id")
    return None if value is UNKNOWN else value


def same(own: Mapping[str, object], mine: str, other: Mapping[str, object], its: str) -> bool:
    """True if two properties, as `comes_after` sees them, name the same object."""
    value = asked(own, mine)
    return value is not None and value == asked(other, its)
