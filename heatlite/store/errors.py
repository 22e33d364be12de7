"""What the store tells its callers beside the errors of `heatlite.core.errors`."""

from heatlite.core.errors import Invalid
from heatlite.core.json import JsonMap


class Fenced(Exception):
    """The action is no longer this worker's: another attempt has it, or it has ended.

    Not for a client's eyes: a worker that meets it stops without another word.
    """


class Duplicate(Exception):
    """A row breaks a unique index. The rooms of the store turn it into the error that callers know."""


class SchemaMismatch(Invalid):
    """The tables are not those that this program works with; `upgrade` or a newer program is needed."""


class MissingDriver(Invalid):
    """The URL asks for a database whose driver is not installed."""


class EngineRunning(Exception):
    """Another process has the engine's lock on this database. `info` is what that process wrote."""

    def __init__(self, info: JsonMap) -> None:
        self.info = info
        super().__init__(f"Another engine works on this database: {info}")
