"""Models of reservations."""

import peewee

from heatlite.store.tables.fields import LongTextField


class QuotaReservation(peewee.Model):
    """Room in the quotas of a project of a cloud that an action will take."""

    action_id = peewee.CharField(max_length=36, primary_key=True)
    place = peewee.CharField(max_length=64)
    project = peewee.CharField()
    stack_id = peewee.CharField(max_length=36)
    root_id = peewee.CharField(max_length=36)
    holder = LongTextField()
    amounts = LongTextField()
    parts = LongTextField()
    read_at = peewee.DoubleField()

    class Meta:
        table_name = "quota_reservation"
        indexes = ((("place",), False),)


class QuotaRelease(peewee.Model):
    """Room that an action had reserved when it ended.

    Usage that was read before may lack its objects.
    """

    id = peewee.AutoField()
    place = peewee.CharField(max_length=64)
    amounts = LongTextField()
    released_at = peewee.DoubleField()

    class Meta:
        table_name = "quota_release"
        indexes = ((("place", "id"), False),)


MODELS: tuple[type[peewee.Model], ...] = (QuotaReservation, QuotaRelease)
