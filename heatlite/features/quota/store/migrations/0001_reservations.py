"""Reservations of actions."""

from peewee import AutoField, CharField, Database, DoubleField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class QuotaReservation(Model):
    action_id = CharField(max_length=36, primary_key=True)
    place = CharField(max_length=64)
    project = CharField()
    stack_id = CharField(max_length=36)
    root_id = CharField(max_length=36)
    holder = LongTextField()
    amounts = LongTextField()
    parts = LongTextField()
    read_at = DoubleField()

    class Meta:
        table_name = "quota_reservation"
        indexes = ((("place",), False),)


class QuotaRelease(Model):
    id = AutoField()
    place = CharField(max_length=64)
    amounts = LongTextField()
    released_at = DoubleField()

    class Meta:
        table_name = "quota_release"
        indexes = ((("place", "id"), False),)


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, QuotaReservation, QuotaRelease)
