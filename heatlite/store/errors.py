"""What the store tells its callers beside the errors of `heatlite.core.errors`."""

from heatlite.core.errors import DatabaseUnavailable, Invalid
from heatlite.core.json import JsonMap
from heatlite.core.status import Control


class Fenced(Exception):
    """The action is no longer this worker's: another attempt has it, or it has ended.

    Not for a client's eyes: a worker that meets it stops without another word.
    """


class AlreadyCommitted(Exception):
    """What a worker writes again, because nobody answered its COMMIT, has been written. `control` is what is asked of
    the action."""

    def __init__(self, control: Control | None) -> None:
        self.control = control
        super().__init__()


class Duplicate(Exception):
    """A row breaks a unique index. The rooms of the store turn it into the error that callers know."""


class SchemaMismatch(Invalid):
    """The tables are not those that this program works with; `upgrade` or a newer program is needed."""


class MissingDriver(Invalid):
    """The URL asks for a database whose driver is not installed."""


class UnreadableSecret(DatabaseUnavailable):
    """None of the keys opens a stored secret."""

    text = (
        "A stored secret cannot be read: {keys} has not the key that it was written with, or it has been damaged."
        " Add that key again, behind those in use."
    )


class MissingKey(UnreadableSecret):
    """The database holds encrypted secrets, and the file of its key is gone."""

    text = (
        "The key file {path} is missing, and the database holds secrets that were encrypted with it. Put the file back"
        " from your backup; a new key would not open them."
    )


class BadBackup(Invalid):
    """A backup cannot be made under this name, or is none."""


class EngineRunning(Exception):
    """Another process has the engine's lock on this database. `info` is what that process wrote."""

    def __init__(self, info: JsonMap) -> None:
        self.info = info
        super().__init__(f"Another engine works on this database: {info}")
