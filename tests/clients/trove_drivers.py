"""Parts of Trove in place of machines, their agents and images.

The API and the taskmanager are two processes. What an agent would know is in a file of each instance.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from oslo_utils import timeutils
from trove.cluster.models import DBCluster
from trove.cluster.tasks import ClusterTasks
from trove.common.clients_admin import nova_client_trove_admin
from trove.instance.models import DBInstance, InstanceServiceStatus
from trove.instance.service_status import ServiceStatuses
from trove.instance.tasks import InstanceTasks
from trove.taskmanager.manager import Manager

HOST = "database.example"


class Guest:
    """An agent that keeps the names of its databases and users."""

    def __init__(self, context: object, instance: str) -> None:
        self._file = Path.home() / f"guest-{instance}.json"

    def create_database(self, databases: Sequence[Mapping[str, Any]]) -> None:
        """Keep databases."""
        self._keep("databases", {one["_name"]: one for one in databases})

    def create_user(self, users: Sequence[Mapping[str, Any]]) -> None:
        """Keep users."""
        self._keep("users", {one["_name"]: one for one in users})

    def delete_database(self, database: Mapping[str, Any]) -> None:
        """Forget a database."""
        self._keep("databases", {database["_name"]: None})

    def delete_user(self, user: Mapping[str, Any]) -> None:
        """Forget a user."""
        self._keep("users", {user["_name"]: None})

    def list_databases(self, limit: int, marker: str, include_marker: bool) -> tuple[list[Any], None]:
        """Return the database of that name."""
        return [one for one in [self._kept("databases").get(marker)] if one], None

    def list_users(self, limit: int, marker: str, include_marker: bool) -> tuple[list[Any], None]:
        """Return the user of that name and host."""
        return [one for one in [self._kept("users").get(marker.partition("@")[0])] if one], None

    def get_user(self, username: str, hostname: str) -> Any:
        """Return a user, or None."""
        found = self._kept("users").get(username)
        return found if found and found["_host"] == hostname else None

    def list_access(self, username: str, hostname: str) -> Any:
        """Return the databases that a user may use."""
        return self._kept("users")[username]["_databases"]

    def update_attributes(self, username: str, hostname: str, user_attrs: Mapping[str, Any]) -> None:
        """Keep what has changed of a user."""
        changes = {f"_{name}": value for name, value in user_attrs.items()}
        self._keep("users", {username: {**self._kept("users")[username], **changes}})

    def grant_access(self, username: str, hostname: str, databases: Sequence[str]) -> None:
        """Let a user use databases."""
        user = self._kept("users")[username]
        known = self._kept("databases")
        granted = [*user["_databases"], *(known[name] for name in databases)]
        self._keep("users", {username: {**user, "_databases": granted}})

    def get_volume_info(self) -> dict[str, float]:
        """Return a volume's size and use in GiB."""
        return {"used": 0.1, "total": 1.0}

    def _kept(self, kind: str) -> dict[str, Any]:
        found = json.loads(self._file.read_text()) if self._file.exists() else {}
        return dict(found.get(kind, {}))

    def _keep(self, kind: str, changes: Mapping[str, Any]) -> None:
        kept = {name: self._kept(name) for name in ("databases", "users")}
        kept[kind] = {name: one for name, one in {**kept[kind], **changes}.items() if one}
        self._file.write_text(json.dumps(kept))


class _Server:
    status = "ACTIVE"


class _Anything:
    """A collection that has what it is asked for."""

    def get(self, key: str) -> _Server:
        return _Server()


def compute(*arguments: object, **options: object) -> Any:
    """Return a client of Nova with its real flavors, and a running server of each id."""
    found = nova_client_trove_admin(*arguments, **options)
    found.servers = _Anything()
    return found


class Images:
    """A Glance that has each image."""

    def __init__(self, *_: object, **__: object) -> None:
        self.images = _Anything()


class Machineless(Manager):  # type: ignore[misc]
    """A taskmanager whose tasks are done at once."""

    def create_instance(
        self, context: Any, instance_id: str, name: str, flavor: Any, image_id: str, databases: Sequence[Any],
        users: Sequence[Any] | None, *words: object, **more: object,
    ) -> None:  # fmt: skip
        """Make an instance run."""
        agent = Guest(context, instance_id)
        agent.create_database(databases)
        agent.create_user(users or [])
        self._done(instance_id, compute_instance_id=str(uuid4()), hostname=HOST)
        self._served(instance_id, ServiceStatuses.HEALTHY)

    def resize_flavor(self, context: Any, instance_id: str, old_flavor: object, new_flavor: Mapping[str, Any]) -> None:
        """Write the new flavor."""
        self._done(instance_id, flavor_id=new_flavor["id"])

    def resize_volume(self, context: Any, instance_id: str, new_size: int) -> None:
        """Write the new size."""
        self._done(instance_id, volume_size=int(new_size))

    def delete_instance(self, context: Any, instance_id: str) -> None:
        """Delete an instance."""
        self._served(instance_id, ServiceStatuses.DELETED)
        self._done(instance_id, deleted=True, deleted_at=timeutils.utcnow())

    def create_cluster(self, context: Any, cluster_id: str) -> None:
        """Leave a cluster as its instances are."""
        self._write(DBCluster.find_by(id=cluster_id, deleted=False), task_status=ClusterTasks.NONE)

    def delete_cluster(self, context: Any, cluster_id: str) -> None:
        """Delete a cluster, whose instances are deleted by themselves."""
        gone = {"deleted": True, "deleted_at": timeutils.utcnow()}
        self._write(DBCluster.find_by(id=cluster_id, deleted=False), task_status=ClusterTasks.NONE, **gone)

    def _done(self, instance: str, **values: object) -> None:
        self._write(DBInstance.find_by(id=instance, deleted=False), task_status=InstanceTasks.NONE, **values)

    def _served(self, instance: str, status: Any) -> None:
        self._write(InstanceServiceStatus.find_by(instance_id=instance), status=status)

    @staticmethod
    def _write(row: Any, **values: object) -> None:
        for name, value in values.items():
            setattr(row, name, value)
        row.save()
