"""Software configurations and deployments, for clients and resource types."""

from collections.abc import Iterator, Mapping
from functools import partial

from msgspec.structs import replace

from heatlite.core.clock import Clock, to_text
from heatlite.core.config import Settings
from heatlite.core.errors import (
    HTTPBadRequest,
    InvalidRestrictedAction,
    NotFound,
    RequestLimitExceeded,
)
from heatlite.core.ids import new_id
from heatlite.core.json import Json, JsonMap, size
from heatlite.plugin.ports import SoftwareConfig
from heatlite.store.records import SoftwareConfigRecord, SoftwareDeploymentRecord
from heatlite.store.store import Store
from heatlite.store.writes.large_values import LARGE

MOST_SPACE = 512 * 1024 * 1024
"""Maximum characters of the large values of a project's software; equal values count once."""
IN_PROGRESS = "IN_PROGRESS"
ANSWERED = "answered"
"""Key of the message that wakes the action of an ended deployment. Its address is the deployment's id."""
COMPLETE = "COMPLETE"
FAILED = "FAILED"

LONGEST_NAME = 255
"""Maximum characters of a configuration's name and of its group (Heat's)."""
BATCH = 8
"""Deployments of a list that are read with their values at once."""


def shown(record: SoftwareConfigRecord) -> JsonMap:
    """Return a configuration with all its fields."""
    return {
        "id": record.id,
        "name": record.name,
        "group": record.group,
        "creation_time": to_text(record.created_at),
        "config": record.config,
        "inputs": [*record.inputs],
        "outputs": [*record.outputs],
        "options": record.options,
    }


class Software:
    """Software configurations and deployments, also as `plugin.ports.Software`.

    Each change is a transaction, or part of the thread's.
    """

    def __init__(self, store: Store, clock: Clock, settings: Settings) -> None:
        self._store = store
        self._clock = clock
        self._most_configs = settings.max_software_configs_per_tenant
        self._most_deployments = settings.max_software_deployments_per_tenant
        self.largest = settings.max_resource_data
        """Maximum size of a configuration, of those of a server, and of a list's values, in characters of JSON."""

    # -- configurations ----------------------------------------------------------------------------

    def show_config(self, project: str, config_id: str) -> SoftwareConfigRecord:
        """Return a configuration of the project. Raises NotFound."""
        found = self._store.software_configs.get(project, config_id)
        if found is None:
            raise NotFound(entity="Software config", name=config_id)
        return found

    def config(self, project: str, config_id: str) -> SoftwareConfig:
        """Return a configuration as resource types see it."""
        found = self.show_config(project, config_id)
        return SoftwareConfig(found.name, found.group, found.config, found.inputs, found.outputs, found.options)

    def create_config(self, project: str, config: SoftwareConfig, config_id: str | None = None) -> SoftwareConfigRecord:
        """Add a configuration, unless the id is there already.

        Raises RequestLimitExceeded, and HTTPBadRequest for a long name or an id in use elsewhere.
        """
        record = SoftwareConfigRecord(
            id=config_id or new_id(),
            project=project,
            name=config.name,
            group=config.group,
            config=config.config,
            inputs=config.inputs,
            outputs=config.outputs,
            options=config.options,
            created_at=self._clock.now(),
        )
        if max(len(config.name), len(config.group)) > LONGEST_NAME:
            raise HTTPBadRequest(
                f"The name or the group of a software config has more than {LONGEST_NAME} characters. Shorten it."
            )
        length = size(shown(record), self.largest)
        if length > self.largest:
            raise RequestLimitExceeded(
                message=f"a software config of more than {self.largest} characters of JSON (max_resource_data)."
                " Reduce its content or its inputs."
            )
        configs = self._store.software_configs
        with self._store.transaction():
            room = self._store.limit_locks.has_room(
                f"software configs of {project}", self._most_configs, partial(configs.count, project)
            )
            if not room and configs.get(project, record.id) is None:
                raise RequestLimitExceeded(
                    message=f"The project has {self._most_configs} software configs, and may not have more."
                )
            is_added = configs.insert(record)
            self._check_space(project, length)
            if config_id is not None and not is_added and not configs.lock(project, config_id):
                raise HTTPBadRequest(f"The id {record.id} is in use for another software config. Delete that first.")
        return record

    def put_config(self, project: str, config_id: str, config: SoftwareConfig) -> None:
        """Store a configuration; an existing one stays, since configurations never change.

        Raises as `create_config`.
        """
        self.create_config(project, config, config_id)

    def delete_config(self, project: str, config_id: str) -> None:
        """Delete a configuration.

        Raises NotFound, and InvalidRestrictedAction while a deployment uses it.
        """
        with self._store.transaction():
            if not self._store.software_configs.lock(project, config_id):
                raise NotFound(entity="Software config", name=config_id)
            if self._store.software_deployments.uses(config_id):
                raise InvalidRestrictedAction(
                    f"The software config ({config_id}) is deployed; delete the deployments that have it first."
                )
            self._store.software_configs.delete(project, config_id)

    # -- deployments -------------------------------------------------------------------------------

    def deployment(self, project: str, deployment_id: str) -> SoftwareDeploymentRecord:
        """Return a deployment of the project. Raises NotFound."""
        found = self._store.software_deployments.get(project, deployment_id)
        if found is None:
            raise NotFound(entity="Software deployment", name=deployment_id)
        return found

    def deployments(self, project: str, server_id: str | None) -> Iterator[tuple[SoftwareDeploymentRecord, bool]]:
        """Yield the deployments of a project, or to one server, oldest first.

        True with each that is whole. Beyond `max_resource_data` the others have no values and no reason.
        """
        outlines, left = self._store.software_deployments.list(project, server_id, outlines=True), self.largest
        for at in range(0, len(outlines), BATCH):
            some = outlines[at : at + BATCH]
            wanted = [one.id for one in some] if left >= 0 else []
            whole = {one.id: one for one in self._store.software_deployments.existing(wanted)}
            for outline in some:
                one = whole.get(outline.id, outline)
                if left >= 0:
                    left -= size([one.input_values, one.output_values, one.status_reason], left)
                yield (one, True) if left >= 0 else (outline, False)

    def create_deployment(
        self,
        project: str,
        server_id: str,
        config_id: str,
        input_values: JsonMap,
        action: str,
        status: str,
        status_reason: str,
        deployment_id: str | None = None,
    ) -> SoftwareDeploymentRecord:
        """Add a deployment.

        Raises RequestLimitExceeded, also for too much software of a server, and HTTPBadRequest for a config that the
        project does not have.
        """
        record = SoftwareDeploymentRecord(
            id=deployment_id or new_id(),
            project=project,
            server_id=server_id,
            config_id=config_id,
            input_values=input_values,
            output_values={},
            action=action,
            status=status,
            status_reason=status_reason,
            created_at=self._clock.now(),
        )
        with self._store.transaction():
            self._check_config(project, config_id)
            room = self._store.limit_locks.has_room(
                f"software deployments of {project}",
                self._most_deployments,
                partial(self._store.software_deployments.count, project),
            )
            if not room:
                raise RequestLimitExceeded(
                    message=f"The project has {self._most_deployments} software deployments, and may not have more."
                )
            self._lock_server(project, server_id)
            self._store.software_deployments.insert(record)
            self._check_space(project, size(input_values, LARGE))
            self.of_server(project, server_id)
        return record

    def update_deployment(self, project: str, deployment_id: str, changes: JsonMap) -> SoftwareDeploymentRecord:
        """Change fields of a deployment.

        Raises NotFound, RequestLimitExceeded for too much software of a server, and HTTPBadRequest for a missing
        config.
        """
        with self._store.transaction():
            found = self._hold(project, deployment_id)
            config_id = changes.get("config_id")
            if isinstance(config_id, str):
                self._check_config(project, config_id)
            record = replace(found, **changes, updated_at=self._clock.now())  # type: ignore[arg-type]
            moved = (record.server_id, record.config_id) != (found.server_id, found.config_id)
            if moved:
                self._lock_server(project, record.server_id)
            self._store.software_deployments.save(record)
            self._check_space(project, size([record.input_values, record.output_values], LARGE))
            if found.status == IN_PROGRESS != record.status:
                self._store.messages.put(deployment_id, ANSWERED, None, record.updated_at or record.created_at)
            if moved:
                self.of_server(project, record.server_id)
        return record

    def _check_space(self, project: str, added: int) -> None:
        """Raise RequestLimitExceeded if the large values of a project exceed `MOST_SPACE`.

        They include a value of `added` characters, and for some hours those that were deleted.
        """
        if added >= LARGE and self._store.project_values.total(project) > MOST_SPACE:
            raise RequestLimitExceeded(
                message=f"The software configs and deployments of the project come to more than {MOST_SPACE}"
                " characters. Delete some: their space is free after two hours."
            )

    def _lock_server(self, project: str, server_id: str) -> None:
        self._store.limit_locks.take(f"software of server {server_id} of {project}")

    def delete_deployment(self, project: str, deployment_id: str) -> None:
        """Delete a deployment, but not its configuration. Raises NotFound."""
        with self._store.transaction():
            if not self._store.software_deployments.delete(project, deployment_id):
                raise NotFound(entity="Software deployment", name=deployment_id)
            self._store.messages.clear(deployment_id)

    def _check_config(self, project: str, config_id: str) -> None:
        # Locked, so that it is not deleted before the transaction ends.
        if not self._store.software_configs.lock(project, config_id):
            raise HTTPBadRequest(f"config_id: there is no software config {config_id}.")

    def _hold(self, project: str, deployment_id: str) -> SoftwareDeploymentRecord:
        found = self._store.software_deployments.lock(project, deployment_id)
        if found is None:
            raise NotFound(entity="Software deployment", name=deployment_id)
        return found

    # -- what the deployments of resources do ------------------------------------------------------

    def deploy(
        self,
        project: str,
        deployment_id: str,
        server_id: str,
        action: str,
        config_id: str,
        config: SoftwareConfig,
        input_values: JsonMap,
        awaited: bool,
    ) -> None:
        """Deploy a configuration to a server, in place of the deployment's earlier one.

        The deployment ends with the server's answer, or at once if no answer is `awaited`. Raises RequestLimitExceeded.
        """
        status = IN_PROGRESS if awaited else COMPLETE
        reason = "Deploy data available" if awaited else "Not waiting for outputs signal"
        with self._store.transaction():
            before = self._store.software_deployments.lock(project, deployment_id)
            if awaited:
                for one in self._store.features:
                    one.note_deployed(project, server_id, self._clock.now())
            if before is not None:
                self._store.software_configs.delete(project, before.config_id)
            self.create_config(project, config, config_id)
            if before is None:
                self.create_deployment(
                    project, server_id, config_id, input_values, action, status, reason, deployment_id
                )
            else:
                changes: JsonMap = {
                    "server_id": server_id,
                    "config_id": config_id,
                    "input_values": input_values,
                    "action": action,
                    "status": status,
                    "status_reason": reason,
                }
                self.update_deployment(project, deployment_id, changes)

    def finish(
        self, project: str, deployment_id: str, failed: bool, reason: str, outputs: Mapping[str, Json] = {}
    ) -> bool:
        """End a deployment and add to its outputs. False if it was not IN_PROGRESS."""
        with self._store.transaction():
            found = self._hold(project, deployment_id)
            if found.status != IN_PROGRESS:
                return False
            values: JsonMap = {**found.output_values, **outputs}
            changes: JsonMap = {"status": FAILED if failed else COMPLETE, "status_reason": reason}
            self.update_deployment(project, deployment_id, {**changes, "output_values": values})
        return True

    def withdraw(self, project: str, deployment_id: str) -> None:
        """Delete a deployment, if it exists, with its derived configuration."""
        with self._store.transaction():
            found = self._store.software_deployments.get(project, deployment_id)
            if found is not None:
                self._store.software_deployments.delete(project, deployment_id)
                self._store.messages.clear(deployment_id)
                self._store.software_configs.delete(project, found.config_id)

    def of_server(self, project: str, server_id: str) -> list[SoftwareConfigRecord]:
        """Return the configurations for a server by name.

        Raises RequestLimitExceeded if they are larger than `max_resource_data`, as its metadata may not be.
        """
        found = self._store.software_configs.of_server(project, server_id)
        if size([shown(one) for one in found], self.largest) > self.largest:
            raise RequestLimitExceeded(
                message=f"more than {self.largest} characters of JSON (max_resource_data) for the server {server_id}."
                " Reduce the values of its software configs."
            )
        return found

    def deployed(self, project: str, server_id: str) -> list[Json]:
        """Return the configurations for a server by name, as its agent reads them."""
        return [shown(one) for one in self.of_server(project, server_id)]

    def has_server(self, project: str, server_id: str) -> bool:
        """True if a resource of a live stack has an object with that id."""
        return self._store.resources.has_object(project, server_id)
