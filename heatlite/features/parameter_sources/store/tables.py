"""Model of readings."""

import peewee

from heatlite.store.tables.fields import EncryptedField


class Reading(peewee.Model):
    """A value that a parameter of a stack got from an output of another one."""

    id = peewee.CharField(max_length=36, primary_key=True)
    project = peewee.CharField()
    reader_id = peewee.CharField(max_length=36)
    parameter = peewee.CharField()
    owner_id = peewee.CharField(max_length=36, index=True)
    owner_name = peewee.CharField()
    output = peewee.CharField()
    value = EncryptedField()
    read_at = peewee.DoubleField()
    action_id = peewee.CharField(max_length=36)

    class Meta:
        table_name = "reading"
        indexes = ((("reader_id", "read_at"), False),)
