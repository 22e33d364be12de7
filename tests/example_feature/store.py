"""Rows of the feature reports."""

from pathlib import Path

import peewee

from heatlite.store.feature_store import FeatureStore, Series
from heatlite.store.tables.fields import EncryptedField, LongTextField

EXAMPLE = ["reports.0001_reports", "reports.0002_authors"]
"""Names of its migrations in the database."""


class Report(peewee.Model):
    """A text about a stack."""

    id = peewee.CharField(max_length=36, primary_key=True)
    stack_id = peewee.CharField(max_length=36, index=True)
    text = LongTextField()
    author = peewee.CharField(null=True)
    project = peewee.CharField(default="")
    note = EncryptedField(null=True)

    class Meta:
        table_name = "report"


class ReportStore(FeatureStore):
    """Texts about stacks, which go with them."""

    tables = (Report,)
    holders = (Report,)
    of_stacks = {"report": "stack_id"}
    series = Series("reports", Path(__file__).parent)

    def texts(self) -> list[str]:
        """Return all texts."""
        return [text for (text,) in self.database.select(Report.select(Report.text))]
