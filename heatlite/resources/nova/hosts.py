"""Placement of servers: server groups and host aggregates."""

from contextlib import suppress
from typing import Final, cast

from heatlite.clients.cloud import CloudConflict, CloudNotFound
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.plugin import Change, CloudResource, Schema, SupportStatus, prop


class Rules(Schema):
    max_server_per_host: float | None = prop(doc="Maximum number of the servers on one host; for anti-affinity only.")


class ServerGroupProps(Schema):
    name: str | None = prop(blank=True, doc="Its name.")
    policies: list[str] = prop(
        ["anti-affinity"],
        one_of=("anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity"),
        api="",
        doc="The placement policy; exactly one.",
    )
    rules: Rules | None = prop(api="", doc="Rules of the policy.")

    def fault_policies(self) -> str | None:
        return "policies: the service takes exactly one" if len(self.policies) != 1 else None

    def fault_rules(self) -> str | None:
        most = None if self.rules is None else self.rules.max_server_per_host
        if most is not None and self.policies[:1] != ["anti-affinity"]:
            return "rules: max_server_per_host goes with the policy anti-affinity only"
        return None


class ServerGroup(CloudResource[ServerGroupProps], type="OS::Nova::ServerGroup", kind="compute.server_group"):
    """A group of servers to be kept on one host or on different ones.

    Servers name it in the scheduler hint `group`.
    """

    counts = ("compute.server_groups",)
    support_status = SupportStatus(version="2014.2")
    kept_when_well = True

    def asked(self, mark: JsonMap) -> JsonMap:
        return {}  # the service cannot filter its list

    def create_args(self) -> JsonMap:
        args = {**self.sent(), "policy": self.props.policies[0]}
        most = None if self.props.rules is None else self.props.rules.max_server_per_host
        if most is not None:
            args["rules"] = {"max_server_per_host": int(most)}
        return args


ZONE: Final = "availability_zone"


class HostAggregateProps(Schema):
    name: str = prop(update=True, doc="Its name.")
    availability_zone: str | None = prop(update=True, doc="The availability zone of its hosts.")
    hosts: list[str] | None = prop(
        items=prop(custom="nova.host", doc="The name of a host."), update=True, api="", doc="The hosts."
    )
    metadata: dict[str, Json] = prop({}, update=True, api="", doc="Metadata that the scheduler compares with flavors.")


class HostAggregate(CloudResource[HostAggregateProps], type="OS::Nova::HostAggregate", kind="compute.aggregate"):
    """A host aggregate: a group of hosts with common metadata. For administrators."""

    support_status = SupportStatus(version="6.0.0")
    unique_name = True
    alone = frozenset({"name"})

    def asked(self, mark: JsonMap) -> JsonMap:
        return {}  # the service cannot filter its list

    def check_create_complete(self, token: Json) -> bool | float:
        """Set metadata and hosts, also of an aggregate found after a crash."""
        self._set_metadata({})
        self._set_hosts([])
        return True

    def live_parts(self, thing: JsonMap) -> JsonMap:
        parts, given = super().live_parts(thing), self.facts.properties
        if given.get("hosts") is not None:
            parts["hosts"] = self.listed("hosts", cast(list[Json], thing.get("hosts") or []))
        if given.get("metadata") is not None:
            asked = as_map(given["metadata"])
            # The service keeps the availability zone among the metadata.
            live = {key: value for key, value in as_map(thing.get("metadata")).items() if key != ZONE or key in asked}
            wanted: JsonMap = {key: str(value) for key, value in asked.items()}
            parts["metadata"] = asked if live == wanted else live
        return parts

    def handle_update(self, change: Change) -> Json:
        super().handle_update(change)
        if "metadata" in change.changed:
            self._set_metadata(cast(JsonMap, change.before.get("metadata") or {}))
        if "hosts" in change.changed:
            self._set_hosts(cast(list[str], change.before.get("hosts") or []))
        return None

    def _set_metadata(self, before: JsonMap) -> None:
        gone = {name: None for name in before if name not in self.props.metadata}
        wanted = {**gone, **{name: str(value) for name, value in self.props.metadata.items()}}
        if wanted:
            self.service("set_aggregate_metadata", self.physical_id, cast(Json, wanted))

    def _set_hosts(self, before: list[str]) -> None:
        wanted = self.props.hosts or []
        for host in before:
            if host not in wanted:
                with suppress(CloudNotFound):
                    self.service("remove_host_from_aggregate", self.physical_id, host)
        for host in wanted:
            if host not in before:
                with suppress(CloudConflict):  # it is in it already
                    self.service("add_host_to_aggregate", self.physical_id, host)

    def handle_delete(self) -> Json:
        """Remove the hosts, then delete: the service deletes only empty aggregates."""
        if self.physical_id is not None:
            for host in cast(list[str], self.fetched.get("hosts") or []):
                with suppress(CloudNotFound):
                    self.service("remove_host_from_aggregate", self.physical_id, host)
        return super().handle_delete()
