"""Software configurations and deployments."""

from collections.abc import Sequence

import peewee
from msgspec import Struct
from msgspec.structs import asdict

from heatlite.core.json import AnyMap
from heatlite.store.database.paging import after, directed
from heatlite.store.database.sql import chunks, marks
from heatlite.store.records import SoftwareConfigRecord, SoftwareDeploymentRecord
from heatlite.store.rows import Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.stacks import SoftwareConfig as Config
from heatlite.store.tables.stacks import SoftwareDeployment as Deployment
from heatlite.store.writes.batch import Table
from heatlite.store.writes.large_values import ProjectValues


class _Config(Struct, frozen=True):
    """A row of a configuration."""

    id: str
    project: str
    name: str
    group: str
    content: AnyMap
    """config, inputs, outputs, options."""
    created_at: float


_CONFIGS = Rows(_Config, Config)
_DEPLOYMENTS = Rows(SoftwareDeploymentRecord, Deployment)
_OUTLINE = _DEPLOYMENTS.selected(without=("input_values", "output_values", "status_reason"))
_NEWEST_FIRST = (Config.created_at, Config.id)


class SoftwareConfigs:
    """Software configurations."""

    def __init__(self, encryption: FieldEncryption, values: ProjectValues) -> None:
        self._table = Table(encryption, _CONFIGS, large_values=values)
        self._database = encryption.database
        self._for_update = self._database.backend.for_update

    def insert(self, record: SoftwareConfigRecord) -> bool:
        """Add a configuration, unless the id is there already: it never changes.

        Returns True if it was added; False also where the database does not tell.
        """
        kept = asdict(record)
        content = {name: kept.pop(name) for name in ("config", "inputs", "outputs", "options")}
        cells = self._table.cells(_Config(**kept, content=content))
        backend = self._database.backend
        into = f"INSERT INTO software_config ({self._database.quote(*cells)}) VALUES ({marks(cells)})"
        count = self._database.write(f"{into} {backend.keep.format(key='id')}", [*cells.values()])
        return count > 0 and not backend.counts_kept

    def get(self, project: str, config_id: str) -> SoftwareConfigRecord | None:
        """Return a configuration of a project."""
        return next(map(_config, self._table.select("WHERE id = ? AND project = ?", (config_id, project))), None)

    def lock(self, project: str, config_id: str) -> bool:
        """Lock a configuration until the transaction ends. Returns whether it exists."""
        sql = f"SELECT id FROM software_config WHERE id = ? AND project = ?{self._for_update}"
        return len(self._database.read(sql, (config_id, project))) > 0

    def of_server(self, project: str, server_id: str) -> list[SoftwareConfigRecord]:
        """Return the configurations deployed to a server, by name."""
        deployed = Deployment.select(Deployment.config_id).where(
            Deployment.project == project, Deployment.server_id == server_id
        )
        rows = self._database.select(Config.select(*_CONFIGS.selected()).where(Config.id.in_(deployed)))
        # Databases differ in their order of text.
        return sorted(map(_config, self._table.records(rows)), key=lambda config: (config.name, config.id))

    def delete(self, project: str, config_id: str) -> bool:
        """Remove a configuration. Returns whether it existed."""
        sql = "DELETE FROM software_config WHERE id = ? AND project = ?"
        return self._database.write(sql, (config_id, project)) > 0

    def count(self, project: str) -> int:
        """Return the number of a project."""
        ((count,),) = self._database.read("SELECT COUNT(id) FROM software_config WHERE project = ?", (project,))
        return int(count)

    def list(self, project: str | None, limit: int | None, marker: str | None) -> list[SoftwareConfigRecord]:
        """Return a page of a project's configurations, newest first, without content.

        `project` None: of all projects.
        """
        if limit == 0:
            return []
        mine = () if project is None else (Config.project == project,)
        conditions: list[peewee.ColumnBase] = [*mine]
        if marker is not None:
            for keys in self._database.select(Config.select(*_NEWEST_FIRST).where(Config.id == marker, *mine)):
                conditions.append(after(_NEWEST_FIRST, keys, descending=True))
        select = Config.select(*_CONFIGS.selected(without=("content",)))
        select = select.where(*conditions) if conditions else select
        ordered = select.order_by(*directed(_NEWEST_FIRST, descending=True)).limit(limit)
        return [*map(_config, _CONFIGS.records(self._database.select(ordered)))]


_Records = list[SoftwareDeploymentRecord]


class SoftwareDeployments:
    """Software deployments."""

    def __init__(self, encryption: FieldEncryption, values: ProjectValues) -> None:
        self._table = Table(encryption, _DEPLOYMENTS, large_values=values)
        self._database = encryption.database

    def insert(self, record: SoftwareDeploymentRecord) -> None:
        """Add a deployment."""
        self._database.change(Deployment.insert(self._table.cells(record)))

    def save(self, record: SoftwareDeploymentRecord) -> None:
        """Write an existing deployment."""
        self._database.change(Deployment.update(self._table.cells(record)).where(Deployment.id == record.id))

    def get(self, project: str, deployment_id: str) -> SoftwareDeploymentRecord | None:
        """Return a deployment of a project."""
        found = self._select(Deployment.id == deployment_id, Deployment.project == project)
        return found[0] if found else None

    def lock(self, project: str, deployment_id: str) -> SoftwareDeploymentRecord | None:
        """Return a deployment, locked until the transaction ends.

        Two signals of one deployment follow each other. On SQLite a transaction has the whole file anyway.
        """
        # An update that changes nothing locks the row on every server.
        self._database.change(Deployment.update(id=Deployment.id).where(Deployment.id == deployment_id))
        return self.get(project, deployment_id)

    def uses(self, config_id: str) -> bool:
        """Return whether a deployment uses the configuration."""
        sql = "SELECT id FROM software_deployment WHERE config_id = ? LIMIT 1"
        return len(self._database.read(sql, (config_id,))) > 0

    def of_configs(self, project: str, config_ids: Sequence[str]) -> dict[str, str]:
        """Return the id of a deployment for each configuration that has one."""
        sql = "SELECT config_id, id FROM software_deployment WHERE config_id IN () AND project = ?"
        return {str(config): str(one) for config, one in self._database.read_in(sql, config_ids, project)}

    def delete(self, project: str, deployment_id: str) -> bool:
        """Remove a deployment. Returns whether it existed."""
        mine = (Deployment.project == project, Deployment.id == deployment_id)
        return self._database.change(Deployment.delete().where(*mine)) > 0

    def count(self, project: str) -> int:
        """Return the number of a project."""
        counted = Deployment.select(peewee.fn.COUNT(Deployment.id)).where(Deployment.project == project)
        count: int = self._database.select(counted)[0][0]
        return count

    def _select(self, *conditions: peewee.ColumnBase, columns: Sequence[peewee.Node] | None = None) -> _Records:
        select = Deployment.select(*columns or _DEPLOYMENTS.selected()).where(*conditions)
        ordered = select.order_by(Deployment.created_at, Deployment.id)
        return self._table.records(self._database.select(ordered))

    def waiting(self, project: str, status: str, server_ids: Sequence[str]) -> Sequence[SoftwareDeploymentRecord]:
        """Return the deployments to the servers with a status, oldest first."""
        found: _Records = []
        for some in chunks(server_ids):
            mine = (Deployment.project == project, Deployment.status == status, Deployment.server_id.in_(some))
            found += self._select(*mine)
        return sorted(found, key=lambda one: (one.created_at, one.id))

    def existing(self, deployment_ids: Sequence[str]) -> Sequence[SoftwareDeploymentRecord]:
        """Return the existing deployments of the ids, oldest first."""
        return self._select(Deployment.id.in_(deployment_ids))

    def list(
        self, project: str, server_id: str | None = None, outlines: bool = False
    ) -> list[SoftwareDeploymentRecord]:
        """Return the deployments of a project, or to one server, oldest first.

        `outlines` have no values and no reason.
        """
        wanted = () if server_id is None else (Deployment.server_id == server_id,)
        return self._select(Deployment.project == project, *wanted, columns=_OUTLINE if outlines else None)


def _config(row: _Config) -> SoftwareConfigRecord:
    kept: AnyMap = {"config": None, "inputs": [], "outputs": [], "options": {}} | row.content
    return SoftwareConfigRecord(row.id, row.project, row.name, row.group, **kept, created_at=row.created_at)
