"""Errors of the store beside those of `heatlite.core.errors`."""

from heatlite.core.errors import DatabaseUnavailable, Invalid
from heatlite.core.json import JsonMap
from heatlite.core.status import Control


class Fenced(Exception):
    """The worker has lost the action: another attempt has it, or it has ended.

    A worker that gets it stops without writing anything. It never reaches a client.
    """


class AlreadyCommitted(Exception):
    """A repeated commit, whose first answer was lost, had been made.

    `control` is the action's control signal.
    """

    def __init__(self, control: Control | None) -> None:
        self.control = control
        super().__init__()


class Duplicate(Exception):
    """A row violates a unique index.

    The classes of the store turn it into a specific error.
    """


class SchemaMismatch(Invalid):
    """The tables do not fit this program; `upgrade` or a newer program is needed."""


class UnreadableSecret(DatabaseUnavailable):
    """No key decrypts a stored secret."""

    text = (
        "A stored secret cannot be decrypted: {keys} lacks the key that encrypted it, or the secret is damaged."
        " Add that key again, after the keys in use."
    )


class MissingKey(UnreadableSecret):
    """The key file is missing, and the database has encrypted secrets."""

    text = (
        "The key file {path} is missing, and the database has encrypted secrets. Restore the file from your backup, or"
        " set encryption_keys if their keys were there; a new key cannot decrypt them."
    )


class BadBackup(Invalid):
    """A backup cannot be written to this file, or the file is no backup."""


class EngineRunning(Exception):
    """Another process has the engine lock. `info` is what that process wrote."""

    def __init__(self, info: JsonMap) -> None:
        self.info = info
        super().__init__(f"Another engine uses this database: {info}")
