"""Types of the shared file system service."""

from contextlib import suppress
from typing import cast

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.plugin import Change, CloudResource, Schema, SupportStatus, prop


class SecurityServiceProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    type: str = prop(one_of=("ldap", "kerberos", "active_directory"), doc="Its type.")
    dns_ip: str | None = prop(update=True, doc="The address of its name server.")
    server: str | None = prop(update=True, doc="The name or address of its server.")
    domain: str | None = prop(update=True, doc="Its domain.")
    user: str | None = prop(update=True, doc="The user of it.")
    password: str | None = prop(update=True, secret=True, doc="The password of that user.")
    description: str | None = prop(update=True, doc="Its description.")


class SecurityService(
    CloudResource[SecurityServiceProps], type="OS::Manila::SecurityService", kind="shared_file_system.security_service"
):
    """A service that authenticates the users of shares."""

    support_status = SupportStatus(version="5.0.0")


class ShareTypeProps(Schema):
    name: str = prop(doc="Its name.")
    is_public: bool = prop(True, api="share_type_access:is_public", doc="True if all projects may use it.")
    driver_handles_share_servers: bool = prop(api="", doc="True if the driver creates servers of shares.")
    snapshot_support: bool = prop(True, api="", doc="True if its shares can have snapshots.")
    extra_specs: dict[str, Json] | None = prop(update=True, api="", doc="Its extra specs.")


class ShareType(CloudResource[ShareTypeProps], type="OS::Manila::ShareType", kind="shared_file_system.share_type"):
    """A type of shares. For administrators."""

    support_status = SupportStatus(version="5.0.0")
    unique_name = True
    alone = frozenset({"name"})

    def create_args(self) -> JsonMap:
        props = self.props
        specs: JsonMap = {
            **_texts(props.extra_specs),
            "driver_handles_share_servers": str(props.driver_handles_share_servers),
            "snapshot_support": str(props.snapshot_support),
        }
        return {**self.sent(), "extra_specs": specs}

    def handle_update(self, change: Change) -> Json:
        before, after = (_texts(one.get("extra_specs")) for one in (change.before, change.after))
        for name in sorted(before.keys() - after.keys()):
            with suppress(CloudNotFound):
                self.service("delete_share_type_spec", self.physical_id, name)
        if after:
            self.service("set_share_type_specs", self.physical_id, extra_specs=after)
        return None


def _texts(specs: object) -> JsonMap:
    """Return extra specs as the service keeps them."""
    return {name: str(value) for name, value in as_map(specs).items()}


class ShareNetworkProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    neutron_network: str | None = prop(
        update=True, find="neutron.network", api="neutron_net_id", doc="Its network, by name or id."
    )
    neutron_subnet: str | None = prop(
        update=True, find="neutron.subnet", api="neutron_subnet_id", doc="Its subnet, by name or id."
    )
    nova_network: str | None = prop(update=True, hidden=True, api="", doc="Without effect.")
    description: str | None = prop(update=True, doc="Its description.")
    security_services: list[str] = prop([], update=True, api="", doc="Its security services, by id.")


class ShareNetwork(
    CloudResource[ShareNetworkProps], type="OS::Manila::ShareNetwork", kind="shared_file_system.share_network"
):
    """A network for servers of shares."""

    support_status = SupportStatus(version="5.0.0")
    blocks = frozenset({"OS::Neutron::Net", "OS::Neutron::Subnet", "OS::Manila::SecurityService"})
    shown = {
        "cidr": (str, "Its addresses."),
        "ip_version": (str, "Its version of IP."),
        "network_type": (str, "Its type."),
        "segmentation_id": (str, "Its segmentation id."),
    }

    def create_args(self) -> JsonMap:
        args = self.sent()
        if "neutron_subnet_id" in args and "neutron_net_id" not in args:
            subnet = self.map(self.cloud.call("network.get_subnet", args["neutron_subnet_id"]))
            args["neutron_net_id"] = subnet["network_id"]
        return args

    def check_create_complete(self, token: Json) -> bool | float:
        """Add the security services, also to a network found after a crash."""
        answer = self.map(self.service("security_services_of", self.physical_id))
        present = [one["id"] for one in cast(list[JsonMap], answer["security_services"])]
        for one in self.props.security_services:
            if one not in present:
                self._act("add_security_service", security_service_id=one)
        return True

    def handle_update(self, change: Change) -> Json:
        before, after = (cast(list[str], one.get("security_services") or []) for one in (change.before, change.after))
        for one in before:
            if one not in after:
                self._act("remove_security_service", security_service_id=one)
        for one in after:
            if one not in before:
                self._act("add_security_service", security_service_id=one)
        return super().handle_update(change)

    def _act(self, action: str, **arguments: Json) -> None:
        self.service("act_on_share_network", self.physical_id, **{action: arguments})


class AccessRule(Schema):
    access_to: str = prop(doc="The address, user or certificate that gets access.")
    access_type: str = prop(one_of=("ip", "user", "cert", "cephx"), doc="The type of access_to.")
    access_level: str | None = prop(one_of=("ro", "rw"), doc="The access: ro to read, rw to write as well.")


class ShareProps(Schema):
    share_protocol: str = prop(
        one_of=("NFS", "CIFS", "GlusterFS", "HDFS", "CEPHFS"), api="share_proto", doc="The protocol of its clients."
    )
    size: int = prop(doc="Its size in GiB.")
    snapshot: str | None = prop(
        find="manila.share_snapshot", api="snapshot_id", doc="The snapshot that it is made from, by name or id."
    )
    name: str | None = prop(update=True, doc="Its name.")
    metadata: dict[str, Json] | None = prop(update=True, doc="Its metadata.")
    share_network: str | None = prop(
        find="manila.share_network", api="share_network_id", doc="Its share network, by name or id."
    )
    description: str | None = prop(update=True, doc="Its description.")
    share_type: str | None = prop(find="manila.share_type", doc="Its type, by name or id.")
    is_public: bool = prop(False, update=True, doc="True if all projects see it.")
    access_rules: list[AccessRule] = prop([], update=True, api="", doc="The clients that have access.")


class Share(CloudResource[ShareProps], type="OS::Manila::Share", kind="shared_file_system.share"):
    """A share: files that several machines can mount."""

    support_status = SupportStatus(version="5.0.0")
    ready = frozenset({"AVAILABLE"})
    broken = frozenset({"ERROR", "ERROR_DELETING"})
    blocks = frozenset({"OS::Manila::ShareNetwork", "OS::Manila::ShareType"})
    shown = {
        "availability_zone": (str, "Its availability zone."),
        "created_at": (str, "The time of its creation."),
        "host": (str, "The host of its files."),
        "project_id": (str, "The project that owns it."),
        "share_server_id": (str, "The id of its server."),
        "status": (str, "Its status."),
    }

    def check_create_complete(self, token: Json) -> bool | float:
        return super().check_create_complete(token) is True and self._grant()

    def check_update_complete(self, token: Json) -> bool | float:
        return super().check_update_complete(token) is True and self._grant()

    def _grant(self) -> bool:
        """Give and withdraw access as the rules say. True."""
        answer = self.map(self._act("access_list", None))
        rules = cast(list[JsonMap], self.schema.fields["access_rules"].wire(self.facts.properties.get("access_rules")))
        wanted, kept = [*(rules or [])], []
        for one in cast(list[JsonMap], answer["access_list"]):
            same = [rule for rule in wanted if all(one.get(name) == value for name, value in rule.items())]
            if same:
                kept.append(same[0])
            else:
                self._act("deny_access", {"access_id": one["id"]})
        for rule in wanted:
            if rule not in kept:
                self._act("allow_access", rule)
        return True

    def _act(self, action: str, argument: Json) -> Json:
        return self.service("act_on_share", self.physical_id, **{action: argument})

    def handle_update(self, change: Change) -> Json:
        args = self.update_args(change)
        if "metadata" in args:
            self.service("set_share_metadata", self.physical_id, metadata=args.pop("metadata") or {})
        names = {"name": "display_name", "description": "display_description", "is_public": "is_public"}
        if args:
            sent: JsonMap = {names[name]: value for name, value in args.items()}
            self.service("update_share", self.physical_id, **sent)
        return None

    def attr_export_locations(self) -> list[Json]:
        """The places where clients mount it."""
        if self.physical_id is None:
            return []
        found = cast(list[JsonMap], self.map(self.service("export_locations", self.physical_id))["export_locations"])
        return [one["path"] for one in found]
