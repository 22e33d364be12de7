"""Types of the database service."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TypeVar, cast

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, CloudResource, Schema, SupportStatus, prop

NAME = r"[a-zA-Z0-9_]+[a-zA-Z0-9_@?#\s]*[a-zA-Z0-9_]+"
BROKEN = frozenset({"ERROR", "FAILED"})


class Nic(Schema):
    network: str | None = prop(find="neutron.network", api="net-id", doc="The network, by name or id.")
    port: str | None = prop(find="neutron.port", api="port-id", doc="The port, by name or id.")
    fixed_ip: str | None = prop(custom="ip_addr", api="v4-fixed-ip", doc="The address; default: a free one.")

    def fault(self) -> str | None:
        if (self.network is None) == (self.port is None):
            return "Either a network or a port must be given"
        return None


class Database(Schema):
    character_set: str = prop("utf8", doc="Its character set.")
    collate: str = prop("utf8_general_ci", doc="Its collation.")
    name: str = prop(
        length=(None, 64), pattern=r"[a-zA-Z0-9_\-]+[a-zA-Z0-9_@?#\s\-]*[a-zA-Z0-9_\-]+", doc="Its name."
    )


class User(Schema):
    name: str = prop(update=True, length=(None, 16), pattern=NAME, doc="Its name.")
    password: str = prop(update=True, pattern=NAME, secret=True, doc="Its password.")
    host: str = prop("%", update=True, doc="The host that it comes from; % stands for any.")
    databases: list[str] = prop(update=True, length=(1, None), doc="The databases that it may use.")


class InstanceProps(Schema):
    name: str | None = prop(blank=True, update=True, length=(None, 255), doc="Its name.")
    flavor: str = prop(update=True, find="trove.flavor", api="", doc="Its flavor, by name or id.")
    size: int = prop(update=True, between=(1, 150), api="", doc="Size of its volume in GiB.")
    databases: list[Database] = prop([], update=True, doc="Its databases.")
    users: list[User] = prop([], update=True, api="", doc="Its users.")
    availability_zone: str | None = prop(blank=True, doc="Its availability zone.")
    restore_point: str | None = prop(api="", doc="The backup that it is made from, by id.")
    datastore_type: str | None = prop(length=(None, 255), api="", doc="The type of the database software.")
    datastore_version: str | None = prop(length=(None, 255), api="", doc="The version of the database software.")
    networks: list[Nic] = prop([], api="nics", doc="Its networks.")
    replica_of: str | None = prop(doc="The instance that it replicates, by id.")
    replica_count: int | None = prop(doc="Number of replicas to make.")

    def fault_version(self) -> str | None:
        if self.datastore_version is not None and self.datastore_type is None:
            return "datastore_version needs datastore_type"
        return None

    def fault_users(self) -> str | None:
        return "users need databases" if self.users and not self.databases else None

    def fault_databases(self) -> str | None:
        names = {one.name for one in self.databases}
        wrong = [user.name for user in self.users if set(user.databases) - names] if names else []
        return f"users: {wrong[0]} may use databases that are not given" if wrong else None


P_co = TypeVar("P_co", bound=Schema, covariant=True)


class TroveResource(CloudResource[P_co]):
    """Base of the types."""

    broken = BROKEN

    def check_delete_complete(self, token: Json) -> bool | float:
        """Wait until it is gone: Trove shows one that is broken as ERROR until then."""
        if self.physical_id is None:
            return True
        with suppress(CloudNotFound):
            self.fetch()
            return False
        return True


class Instance(TroveResource[InstanceProps], type="OS::Trove::Instance", kind="database.instance"):
    """A server with databases."""

    support_status = SupportStatus(version="2014.1")
    ready = frozenset({"ACTIVE", "HEALTHY"})

    def create_args(self) -> JsonMap:
        props, args = self.props, self.sent()
        for name in ("databases", "nics"):
            if not args[name]:
                del args[name]
        args["flavorRef"], args["volume"] = props.flavor, {"size": props.size}
        if props.users:
            args["users"] = [_account(one) for one in props.users]
        if props.restore_point is not None:
            args["restorePoint"] = {"backupRef": props.restore_point}
        if props.datastore_type is not None:
            version = {} if props.datastore_version is None else {"version": props.datastore_version}
            args["datastore"] = {"type": props.datastore_type, **version}
        return args

    def handle_update(self, change: Change) -> Json:
        """Note the steps: the service takes one at a time."""
        steps: list[Json] = []
        changed = change.changed
        if "name" in changed:
            steps.append(["update_instance", [], {"name": self.props.name or self.physical_name}])
        if "flavor" in changed:
            steps.append(["act_on_instance", [], {"resize": {"flavorRef": self.props.flavor}}])
        if "size" in changed:
            steps.append(["act_on_instance", [], {"resize": {"volume": {"size": self.props.size}}}])
        if "databases" in changed:
            steps += self._database_steps(change)
        if "users" in changed:
            steps += self._user_steps(change)
        self.data["steps"] = steps
        return None

    def _database_steps(self, change: Change) -> list[Json]:
        before, after = _by_name(change.before, "databases"), _by_name(change.after, "databases")
        wire = self.schema.fields["databases"].wire
        new = wire([one for name, one in after.items() if name not in before])
        steps: list[Json] = [["create_databases", [], {"databases": new}]] if new else []
        steps += [["delete_database", [name], {}] for name in before if name not in after]
        return steps

    def _user_steps(self, change: Change) -> list[Json]:
        before, after = _by_name(change.before, "users"), _by_name(change.after, "users")
        users = {one.name: one for one in self.props.users}
        new: list[Json] = [_account(users[name]) for name in after if name not in before]
        steps: list[Json] = [["create_users", [], {"users": new}]] if new else []
        steps += [["delete_user", [_named(User(one))], {}] for name, one in before.items() if name not in after]
        for name in before.keys() & after.keys():
            old, user = User(before[name]), users[name]
            # Trove refuses a host that is given though it is the same: such a user exists.
            changes: JsonMap = {
                key: now
                for key, was, now in (("password", old.password, user.password), ("host", old.host, user.host))
                if was != now
            }
            if changes:
                steps.append(["change_user", [_named(old)], {"user": changes}])
            granted: list[Json] = [{"name": one} for one in user.databases if one not in old.databases]
            if granted:
                steps.append(["grant_databases", [_named(user)], {"databases": granted}])
            lost = [one for one in old.databases if one not in user.databases]
            steps += [["revoke_database", [_named(user), one], {}] for one in lost]
        return steps

    def check_update_complete(self, token: Json) -> bool | float:
        """Take the next step, once the instance has finished the previous one."""
        if not self.is_ready():
            return False
        steps = cast(list[list[Json]], self.data.get("steps") or [])
        if not steps:
            return True
        verb, more, attributes = steps[0]
        self.service(str(verb), self.physical_id, *cast(list[Json], more), **cast(JsonMap, attributes))
        self.data["steps"] = [*steps[1:]]
        return False

    def attr_hostname(self) -> str | None:
        """Its host name, or else its first address."""
        addresses = self.fetched.get("ip")
        first = addresses[0] if isinstance(addresses, list) and addresses else None
        return cast(str | None, self.fetched.get("hostname") or first)

    def attr_href(self) -> str | None:
        """Its URL."""
        links = cast(list[JsonMap], self.fetched.get("links") or [])
        return next((str(one["href"]) for one in links if one.get("rel") == "self"), None)


def _account(user: User) -> JsonMap:
    """Return a user in the service's form."""
    databases: list[Json] = [{"name": name} for name in user.databases]
    return {"name": user.name, "password": user.password, "host": user.host, "databases": databases}


def _named(user: User) -> str:
    """Return a user's name in paths, where Trove assumes any host if none is given."""
    return user.name if user.host == "%" else f"{user.name}@{user.host}"


def _by_name(properties: object, name: str) -> dict[str, JsonMap]:
    """Return a list in properties by the names of its elements."""
    found = cast(JsonMap, properties).get(name) or []
    return {str(one["name"]): one for one in cast(list[JsonMap], found)}


class Member(Schema):
    flavor: str = prop(find="trove.flavor", api="flavorRef", doc="Its flavor, by name or id.")
    volume_size: int = prop(between=(1, 150), api="", doc="Size of its volume in GiB.")
    networks: list[Nic] = prop([], api="nics", doc="Its networks.")
    availability_zone: str | None = prop(blank=True, doc="Its availability zone.")


class ClusterProps(Schema):
    name: str | None = prop(blank=True, length=(None, 255), doc="Its name.")
    datastore_type: str = prop(length=(None, 255), api="", doc="The type of the database software.")
    datastore_version: str = prop(length=(None, 255), api="", doc="The version of the database software.")
    instances: list[Member] = prop(doc="Its instances.")


class Cluster(TroveResource[ClusterProps], type="OS::Trove::Cluster", kind="database.cluster"):
    """Several servers with the same databases."""

    support_status = SupportStatus(version="2015.1")
    ready = frozenset({"ACTIVE"})
    shown = {"ip": (list, "Its addresses.")}

    def create_args(self) -> JsonMap:
        props, args = self.props, self.sent()
        for member, one in zip(props.instances, cast(list[JsonMap], args["instances"]), strict=True):
            one["volume"] = {"size": member.volume_size}
            if not one["nics"]:
                del one["nics"]
        return {**args, "datastore": {"type": props.datastore_type, "version": props.datastore_version}}

    def live_properties(self) -> Mapping[str, Json] | None:
        """Leave out the instances, which the service shows in another form."""
        live = super().live_properties()
        return live and {name: value for name, value in live.items() if name != "instances"}

    def status_of(self, thing: JsonMap) -> str:
        """Return the first status of an instance that is not ready, or else ACTIVE."""
        found = [str(one.get("status") or "").upper() for one in cast(list[JsonMap], thing.get("instances") or [])]
        broken = [one for one in found if one in self.broken]
        return next((one for one in broken or found if one != "ACTIVE"), "ACTIVE" if found else "BUILD")

    def attr_instances(self) -> list[Json]:
        """The ids of its instances."""
        return [one["id"] for one in cast(list[JsonMap], self.fetched.get("instances") or [])]
