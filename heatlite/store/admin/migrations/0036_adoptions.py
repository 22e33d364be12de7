"""Claims of adopted objects, an index of physical names, and messages by rows.

The address of a message was the physical name of its resource, which a stack document may choose. It becomes the id of
the row; of several rows with the name the oldest has the messages.
"""

from peewee import CharField, Database, Model, MySQLDatabase
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import create


class AdoptedObject(Model):
    id = CharField(max_length=64, primary_key=True)
    root_id = CharField(max_length=36)

    class Meta:
        table_name = "adopted_object"


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, AdoptedObject)
    column = "physical_name(64)" if isinstance(db, MySQLDatabase) else "substr(physical_name, 1, 64)"
    db.execute_sql(f"CREATE INDEX resource_called ON resource ({column})")  # type: ignore[no-untyped-call]
    owners = "SELECT MIN(id) FROM resource WHERE physical_name = mail.address"
    if not isinstance(db, MySQLDatabase):  # by the index
        owners += " AND substr(physical_name, 1, 64) = substr(mail.address, 1, 64)"
    db.execute_sql(f"UPDATE mail SET address = COALESCE(({owners}), address)")  # type: ignore[no-untyped-call]
