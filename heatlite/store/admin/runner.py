"""Runner of the migrations of a series."""

import peewee
from playhouse.migrations import Migration, Runner

from heatlite.store.feature_store import Series


class SeriesRunner(Runner):  # type: ignore[misc]  # peewee has no types
    """Runner of scripts under their names in the database."""

    def __init__(self, database: peewee.Database, series: Series) -> None:
        super().__init__(database, str(series.scripts))
        self._series = series

    def migrations(self) -> list[Migration]:
        """Return the scripts in order."""
        return [one._replace(name=self._series.recorded(one.name)) for one in super().migrations()]
