"""Models of the dashboard."""

import peewee

from heatlite.store.tables.fields import LongTextField


class UiSession(peewee.Model):
    """A login of the dashboard."""

    digest = peewee.CharField(max_length=64, primary_key=True)
    """SHA-256 of the session's id, which only the browser has."""
    user = LongTextField()
    content = LongTextField()
    """Credentials, encrypted with a key derived from the id."""
    expires_at = peewee.DoubleField(index=True)

    class Meta:
        table_name = "ui_session"


MODELS: tuple[type[peewee.Model], ...] = (UiSession,)
