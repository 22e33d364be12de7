"""Software configurations and deployments."""

from peewee import CharField, Database, DoubleField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class SoftwareConfig(Model):
    id = CharField(max_length=36, primary_key=True)
    project = CharField()
    name = LongTextField()
    group = LongTextField()
    content = LongTextField()
    created_at = DoubleField()

    class Meta:
        table_name = "software_config"
        indexes = ((("project", "created_at", "id"), False),)


class SoftwareDeployment(Model):
    id = CharField(max_length=36, primary_key=True)
    project = CharField()
    server_id = CharField()
    config_id = CharField(max_length=36, index=True)
    input_values = LongTextField()
    output_values = LongTextField()
    action = CharField()
    status = CharField()
    status_reason = LongTextField()
    created_at = DoubleField()
    updated_at = DoubleField(null=True)

    class Meta:
        table_name = "software_deployment"
        indexes = ((("project", "server_id"), False),)


def up(migrator: SchemaMigrator, db: Database) -> None:  # noqa: ARG001
    create(db, SoftwareConfig, SoftwareDeployment)
