"""An existing server: state, attributes, and requests that change no property."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, cast

from heatlite.clients.cloud import CloudError, CloudNotFound
from heatlite.core.json import Json, JsonMap, as_maps
from heatlite.plugin import CloudResource
from heatlite.plugin.naming import keys_as_given
from heatlite.resources.heat.software.targets import Target
from heatlite.resources.nova import addresses
from heatlite.resources.nova.addresses import Addresses
from heatlite.resources.nova.attachments import Attachments
from heatlite.resources.nova.changes import TASK, flavor_name
from heatlite.resources.nova.networks import Ports
from heatlite.resources.nova.server_properties import ServerProps, is_stored

CONSOLES: Final = ("novnc", "xvpvnc", "spice-html5", "rdp-html5", "serial", "webmks")
GONE: Final = frozenset({"DELETED", "SOFT_DELETED"})


class RunningServer(CloudResource[ServerProps], Target[ServerProps], kind="compute.server"):
    """Base of the servers. `data` holds the state before a lock in `was_locked`."""

    unshown = frozenset({"user_data", "OS-EXT-SRV-ATTR:user_data"})
    ready = frozenset({"ACTIVE"})
    broken = frozenset({"ERROR"}) | GONE
    unwell = frozenset({"SHUTOFF", "PAUSED", "SUSPENDED", "SHELVED", "SHELVED_OFFLOADED", "RESCUE"})
    shown = {
        "name": (str, "Its name."),
        "accessIPv4": (str, "The IPv4 address for access to it, if one has been set."),
        "accessIPv6": (str, "The IPv6 address for access to it, if one has been set."),
        "tags": (list, "Its tags."),
    }

    @property
    def _ports(self) -> Ports:
        return Ports(self)

    @property
    def _attached(self) -> Attachments:
        return Attachments(self, self._finders)

    def asked(self, mark: JsonMap) -> JsonMap:
        return {"name": f"^{re.escape(str(mark['name']))}$"}  # the service takes it for a regular expression

    # -- check, suspend, resume ----------------------------------------------------------------------

    def handle_suspend(self) -> Json:
        if self.status_of(self.fetch()) != "SUSPENDED":
            self.service("suspend_server", self.physical_id)
        return None

    def check_suspend_complete(self, token: Json) -> bool | float:
        return self._has_become("SUSPENDED")

    def handle_resume(self) -> Json:
        if self.status_of(self.fetch()) != "ACTIVE":
            self.service("resume_server", self.physical_id)
        return None

    def check_resume_complete(self, token: Json) -> bool | float:
        return self._has_become("ACTIVE")

    def _has_become(self, status: str) -> bool:
        thing = self.fetch()
        if self.status_of(thing) in self.broken:
            raise CloudError("compute.get_server", f"its status is {self.why(thing, 'work')}")
        return self.status_of(thing) == status and thing.get(TASK) is None

    # -- locks ---------------------------------------------------------------------------------------

    def handle_lock(self) -> Json:
        if "was_locked" not in self.data:
            self.data["was_locked"] = bool(self.fetch().get("locked"))
        return None

    def check_lock_complete(self, token: Json) -> bool | float:
        if not self.data.get("was_locked"):
            reason = f"The stack {self.facts.stack_name} is locked"[:255]
            self.service("lock_server", self.physical_id, locked_reason=reason)
        return True

    def handle_unlock(self) -> Json:
        if self.data.get("was_locked") is False:
            with suppress(CloudNotFound):
                self.service("unlock_server", self.physical_id)
        return None

    def check_unlock_complete(self, token: Json) -> bool | float:
        self.data.pop("was_locked", None)
        return True

    # -- attributes and live state -------------------------------------------------------------------

    def live_metadata(self) -> JsonMap:
        return {**self.target_metadata(), **self.agent_metadata()}

    @property
    def has_agent(self) -> bool:
        return self.facts.properties.get("user_data_format") == "SOFTWARE_CONFIG"

    def told(self) -> JsonMap:
        name = flavor_name(self.fetch())
        ports = as_maps(self.cloud.call("compute.server_interfaces", self.physical_id))
        networks: JsonMap = {"networks": [{"port": one["port_id"]} for one in ports]} if ports else {}
        return networks if name is None else {"flavor": name, **networks}

    def live_properties(self) -> Mapping[str, Json] | None:
        try:
            thing = self.fetch()
        except CloudNotFound:
            return None
        given = self.facts.properties
        live: JsonMap = {}
        for name in ("name", "tags", "key_name"):
            if given.get(name) is not None and thing.get(name) is not None:
                live[name] = given[name] if self.is_as_given(name, thing[name]) else thing[name]
        if "tags" in live and sorted(cast(list[str], live["tags"])) == sorted(self.props.tags or ()):
            live["tags"] = given["tags"]  # the service does not keep their order
        if given.get("metadata") is not None:
            known = cast(JsonMap, thing.get("metadata") or {})
            live["metadata"] = keys_as_given(self.props.metadata, known, is_stored)
        if given.get("flavor") is not None:
            # The service embeds the name of a flavor, whatever has become of that since.
            flavor = flavor_name(thing)
            live["flavor"] = given["flavor"] if self.is_called("flavor", flavor, "compute.get_flavor") else flavor
        image = cast(JsonMap, thing.get("image") or {}).get("id")
        if given.get("image") is not None and image is not None:
            live["image"] = given["image"] if self.is_as_given("image", image) else image
        return {**live, **dict(self._attached.live())}

    def why(self, thing: JsonMap, what: str) -> str:
        """Return the service's error message with the id of the request concerned."""
        fault = thing.get("fault")
        reason = str(fault.get("message")).strip() if isinstance(fault, dict) else "the service gives no reason"
        request = self._request()
        return f"{self.status_of(thing)}: {reason}" + (f" (request {request})" if request else "")

    def _request(self) -> Json:
        """Return the id of the latest request on the server, if the service tells."""
        try:
            actions = cast(list[JsonMap], self.service("server_actions", self.physical_id))
        except CloudError:
            return None  # the caller already reports a failure
        newest = sorted(actions, key=lambda action: str(action.get("start_time")))
        return newest[-1].get("request_id") if newest else None

    def attr_addresses(self) -> dict[str, Json]:
        """The addresses by network name and id, each with port, network and subnets."""
        return addresses.with_ports(self._addresses(), self._interfaces(), self.cloud)

    def attr_networks(self) -> dict[str, Json]:
        """Its addresses as lists of texts, by network name and by network id."""
        return addresses.as_texts(self._addresses(), self._interfaces())

    def _addresses(self) -> Addresses:
        return cast(Addresses, self.fetched.get("addresses") or {})

    def _interfaces(self) -> list[JsonMap]:
        try:
            return self._ports.interfaces() if self.physical_id is not None else []
        except CloudNotFound:
            return []

    def attr_first_address(self) -> Json:
        """Its first address.

        Prefer networks, which also tells the network of each address.
        """
        return next((one["addr"] for listed in self._addresses().values() for one in listed), "")

    def attr_instance_name(self) -> str | None:
        """Its name on its host, shown to administrators only."""
        return cast(str | None, self.fetched.get("OS-EXT-SRV-ATTR:instance_name"))

    def attr_console_urls(self) -> dict[str, Json]:
        """The URLs of its consoles by type.

        Only the types that the template names are requested.
        """
        return {kind: self._console(kind) for kind in CONSOLES}

    def attribute_at(self, name: str, path: Sequence[object]) -> Json:
        if name == "console_urls" and path:
            return self._console(str(path[0])) if path[0] in CONSOLES and len(path) == 1 else None
        return super().attribute_at(name, path)

    def _console(self, kind: str) -> str:
        try:
            return str(self.map(self.service("create_console", self.physical_id, kind))["url"])
        except CloudError as error:
            return f"The console cannot be had: {error.reason}"

    def shown_attributes(self) -> Sequence[str]:
        """Leave the consoles out: their URLs grant access."""
        return [name for name in super().shown_attributes() if name != "console_urls"]

    def attr_os_collect_config(self) -> dict[str, Json]:
        """Configuration of os-collect-config, with credentials given a stack domain."""
        return self.collect_config() if self.has_agent else {}
