"""The type of containers."""

import shlex
from collections.abc import Mapping
from typing import cast

from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, CloudResource, Schema, SupportStatus, prop
from heatlite.plugin.cloud import WentToError


class Mount(Schema):
    volume_id: str | None = prop(find="cinder.volume", api="source", doc="The volume, by name or id.")
    volume_size: int | None = prop(api="size", doc="Size of a new volume in GiB.")
    mount_path: str = prop(api="destination", doc="Its place in the container.")

    def fault(self) -> str | None:
        if (self.volume_id is None) == (self.volume_size is None):
            return "Either volume_id or volume_size must be given"
        return None


class Network(Schema):
    network: str | None = prop(find="neutron.network", doc="The network, by name or id.")
    fixed_ip: str | None = prop(custom="ip_addr", api="", doc="The address; default: a free one.")
    port: str | None = prop(find="neutron.port", doc="The port, by name or id.")

    def fault(self) -> str | None:
        return "A network or a port must be given" if self.network is None and self.port is None else None


class ContainerProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    image: str = prop(doc="Its image.")
    command: str | None = prop(doc="The command that it executes.")
    cpu: float | None = prop(update=True, doc="Number of virtual processors.")
    memory: int | None = prop(update=True, doc="Its memory in MiB.")
    environment: dict[str, Json] | None = prop(doc="Its environment variables.")
    workdir: str | None = prop(doc="The working directory of the command.")
    labels: dict[str, Json] | None = prop(doc="Its labels.")
    image_pull_policy: str | None = prop(
        one_of=("ifnotpresent", "always", "never"), doc="The policy for pulling the image."
    )
    restart_policy: str | None = prop(
        doc="The policy for a container that has ended: no, always, unless-stopped, on-failure or on-failure:COUNT."
    )
    interactive: bool | None = prop(doc="True if standard input stays open.")
    image_driver: str | None = prop(one_of=("docker", "glance"), doc="The place of the image.")
    hints: dict[str, Json] | None = prop(doc="Hints for the scheduler.")
    hostname: str | None = prop(doc="Its host name.")
    security_groups: list[Json] = prop([], doc="Its security groups.")
    mounts: list[Mount] | None = prop(doc="Volumes in it.")
    networks: list[Network] | None = prop(update=True, api="nets", doc="Its networks.")
    tty: bool | None = prop(doc="True if it has a terminal.")


class Container(CloudResource[ContainerProps], type="OS::Zun::Container", kind="container.container"):
    """A container."""

    support_status = SupportStatus(version="9.0.0")
    ready = frozenset({"RUNNING", "STOPPED"})
    shown = {"name": (str, "Its name."), "addresses": (dict, "Its addresses by network.")}

    def create_args(self) -> JsonMap:
        args = self.sent()
        policy = self.props.restart_policy
        if policy is not None:
            name, _, count = policy.partition(":")
            args["restart_policy"] = {"Name": name, **({"MaximumRetryCount": count} if count else {})}
        if "memory" in args:
            args["memory"] = str(args["memory"])
        for key in ("environment", "labels"):
            if key in args:
                args[key] = {name: str(value) for name, value in self.map(args[key]).items()}
        if self.props.networks is not None:
            args["nets"] = [*self._nets(self.resolved(self.facts.properties))]
        return args

    @staticmethod
    def _nets(properties: JsonMap) -> list[JsonMap]:
        """Return the networks of resolved properties in the service's form."""
        found: list[JsonMap] = []
        for one in cast(list[JsonMap], properties.get("networks") or []):
            address = one.get("fixed_ip")
            net = {key: one[key] for key in ("network", "port") if one.get(key) is not None}
            if address is not None:
                net["v6-fixed-ip" if ":" in str(address) else "v4-fixed-ip"] = address
            found.append(net)
        return found

    def live_properties(self) -> Mapping[str, Json] | None:
        """Return the live properties in the template's form.

        The service shows commands and policies split, and no networks.
        """
        live = super().live_properties()
        if live is None:
            return None
        found = {name: value for name, value in live.items() if name != "networks"}
        policy, command = found.get("restart_policy"), found.get("command")
        if isinstance(policy, dict):
            count = str(policy.get("MaximumRetryCount") or "0")
            found["restart_policy"] = str(policy["Name"]) + (f":{count}" if count != "0" else "")
        if isinstance(command, list):
            words, given = [str(word) for word in command], str(self.facts.properties.get("command") or "")
            found["command"] = given if shlex.split(given) == words else shlex.join(words)
        return found

    def is_ready(self) -> bool:
        """Test whether it runs, or has ended.

        Raises WentToError if an interactive one has ended.
        """
        done = super().is_ready()
        if done and self.props.interactive and self.status_of(self.fetched) == "STOPPED":
            raise WentToError("it is interactive, and has stopped")
        return done

    def handle_update(self, change: Change) -> Json:
        args = self.update_args(change)
        args.pop("nets", None)
        if args.get("memory") is not None:
            args["memory"] = str(args["memory"])
        if args:
            self.service("update_container", self.physical_id, **args)
        if "networks" in change.changed:
            before = self._nets(self.known(cast(JsonMap, change.before)))
            after = self._nets(self.resolved(cast(JsonMap, change.after)))
            for verb, ours, others in (("detach", before, after), ("attach", after, before)):
                for one in ours:
                    if one not in others:
                        self._connect(verb, one)
        return None

    def _connect(self, verb: str, net: JsonMap) -> None:
        query = {"port": net["port"]} if "port" in net else {"network": net["network"]}
        address = net.get("v4-fixed-ip", net.get("v6-fixed-ip"))
        if address is not None and verb == "attach":
            query["fixed_ip"] = address
        self.service(f"{verb}_container_network", self.physical_id, **query)

    def delete_args(self) -> JsonMap:
        return {"stop": True}
