"""Software configurations and deployments."""

from collections.abc import Sequence

import peewee
from msgspec.structs import asdict

from heatlite.core.json import dump, parse
from heatlite.store.database.paging import after, directed
from heatlite.store.database.sql import chunks, marks
from heatlite.store.database.statements import Row
from heatlite.store.large_values import Parts, ProjectValues
from heatlite.store.records import SoftwareConfigRecord, SoftwareDeploymentRecord
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.stacks import SoftwareConfig as Config
from heatlite.store.tables.stacks import SoftwareDeployment as Deployment

_CONFIG = (Config.id, Config.project, Config.name, Config.group, Config.content, Config.created_at)
_COLUMNS = ("id", "project", "name", "group", "content", "created_at")
_CONTENT = 4
_SUMMARY = (*_CONFIG[:4], peewee.Value("{}"), Config.created_at)
_NEWEST_FIRST = (Config.created_at, Config.id)


class SoftwareConfigs:
    """Software configurations."""

    def __init__(self, encryption: FieldEncryption, values: ProjectValues) -> None:
        self._encryption = encryption
        self._large_values = values
        self._database = encryption.database
        self._for_update = self._database.backend.for_update

    def insert(self, record: SoftwareConfigRecord) -> bool:
        """Add a configuration, unless the id is there already: it never changes.

        Returns True if it was added; False also where the database does not tell.
        """
        kept = asdict(record)
        content = {name: kept.pop(name) for name in ("config", "inputs", "outputs", "options")}
        found: Parts = {}
        text = self._large_values.extract(dump(content), record.project, True, {}, found)
        self._large_values.put(found)
        kept["content"] = self._encryption.encrypt(text)
        backend = self._database.backend
        into = f"INSERT INTO software_config ({self._database.quote(*_COLUMNS)}) VALUES ({marks(_COLUMNS)})"
        count = self._database.write(f"{into} {backend.keep.format(key='id')}", [kept[name] for name in _COLUMNS])
        return count > 0 and not backend.counts_kept

    def get(self, project: str, config_id: str) -> SoftwareConfigRecord | None:
        """Return a configuration of a project."""
        columns = self._database.quote(*_COLUMNS)
        sql = f"SELECT {columns} FROM software_config WHERE id = ? AND project = ?"
        found = self._database.read(sql, (config_id, project))
        return self._whole(found)[0] if found else None

    def lock(self, project: str, config_id: str) -> bool:
        """Lock a configuration until the transaction ends. Returns whether it exists."""
        sql = f"SELECT id FROM software_config WHERE id = ? AND project = ?{self._for_update}"
        return len(self._database.read(sql, (config_id, project))) > 0

    def of_server(self, project: str, server_id: str) -> list[SoftwareConfigRecord]:
        """Return the configurations deployed to a server, by name."""
        deployed = Deployment.select(Deployment.config_id).where(
            Deployment.project == project, Deployment.server_id == server_id
        )
        rows = self._database.select(Config.select(*_CONFIG).where(Config.id.in_(deployed)))
        # Databases differ in their order of text.
        return sorted(self._whole(rows), key=lambda config: (config.name, config.id))

    def _whole(self, rows: Sequence[Row]) -> list[SoftwareConfigRecord]:
        decrypted = [self._encryption.decrypt_columns(row, (_CONTENT,)) for row in rows]
        return [_config(row) for row in self._large_values.restore(decrypted, (_CONTENT,))]

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
        select = Config.select(*_SUMMARY).where(*conditions) if conditions else Config.select(*_SUMMARY)
        ordered = select.order_by(*directed(_NEWEST_FIRST, descending=True)).limit(limit)
        return [_config(row) for row in self._database.select(ordered)]


_DEPLOYMENT = (
    Deployment.id,
    Deployment.project,
    Deployment.server_id,
    Deployment.config_id,
    Deployment.input_values,
    Deployment.output_values,
    Deployment.action,
    Deployment.status,
    Deployment.status_reason,
    Deployment.created_at,
    Deployment.updated_at,
)
_VALUES = (4, 5)
_OUTLINE = (*_DEPLOYMENT[:4], *[peewee.Value("{}")] * 2, *_DEPLOYMENT[6:8], peewee.Value(""), *_DEPLOYMENT[9:])
_Records = list[SoftwareDeploymentRecord]


class SoftwareDeployments:
    """Software deployments."""

    def __init__(self, encryption: FieldEncryption, values: ProjectValues) -> None:
        self._encryption = encryption
        self._large_values = values
        self._database = encryption.database

    def _values(self, record: SoftwareDeploymentRecord) -> dict[str, object]:
        values: dict[str, object] = asdict(record)
        found: Parts = {}
        for name in ("input_values", "output_values"):
            text = self._large_values.extract(dump(values[name]), record.project, True, {}, found)
            values[name] = self._encryption.encrypt(text)
        self._large_values.put(found)
        return values

    def insert(self, record: SoftwareDeploymentRecord) -> None:
        """Add a deployment."""
        self._database.change(Deployment.insert(self._values(record)))

    def save(self, record: SoftwareDeploymentRecord) -> None:
        """Write an existing deployment."""
        self._database.change(Deployment.update(self._values(record)).where(Deployment.id == record.id))

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
        found: dict[str, str] = {}
        for some in chunks(config_ids):
            sql = f"SELECT config_id, id FROM software_deployment WHERE config_id IN ({marks(some)}) AND project = ?"
            found.update((str(config), str(one)) for config, one in self._database.read(sql, (*some, project)))
        return found

    def delete(self, project: str, deployment_id: str) -> bool:
        """Remove a deployment. Returns whether it existed."""
        mine = (Deployment.project == project, Deployment.id == deployment_id)
        return self._database.change(Deployment.delete().where(*mine)) > 0

    def count(self, project: str) -> int:
        """Return the number of a project."""
        counted = Deployment.select(peewee.fn.COUNT(Deployment.id)).where(Deployment.project == project)
        count: int = self._database.select(counted)[0][0]
        return count

    def _select(
        self, *conditions: peewee.ColumnBase, columns: Sequence[peewee.ColumnBase] = _DEPLOYMENT
    ) -> _Records:
        select = Deployment.select(*columns).where(*conditions).order_by(Deployment.created_at, Deployment.id)
        rows = [self._encryption.decrypt_columns(row, _VALUES) for row in self._database.select(select)]
        return [_deployment(row) for row in self._large_values.restore(rows, _VALUES)]

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
        return self._select(Deployment.project == project, *wanted, columns=_OUTLINE if outlines else _DEPLOYMENT)


def _config(row: Row) -> SoftwareConfigRecord:
    identifier, project, name, group, content, created_at = row
    kept = {"config": None, "inputs": [], "outputs": [], "options": {}} | parse(content)
    return SoftwareConfigRecord(identifier, project, name, group, **kept, created_at=created_at)


def _deployment(row: Row) -> SoftwareDeploymentRecord:
    identifier, project, server_id, config_id, inputs, outputs, *rest = row
    return SoftwareDeploymentRecord(
        identifier, project, server_id, config_id, parse(inputs), parse(outputs), *rest
    )
