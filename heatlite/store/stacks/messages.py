"""Messages to resources: signals, and other data that arrives during operations."""

import hashlib
from functools import partial

import peewee

from heatlite.core.json import Json, dump, parse
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.stacks import Mail as Row


class Messages:
    """Messages by address and key."""

    def __init__(self, encryption: FieldEncryption) -> None:
        self._encryption = encryption
        self._database = encryption.database

    def read(self, address: str) -> dict[str, Json]:
        """Return the messages of an address by key, in the order of their first arrival."""
        found = self._database.select(Row.select(Row.key, Row.content).where(Row.address == address).order_by(Row.id))
        return {key: parse(self._encryption.decrypt(content)) for key, content in found}

    def size(self, address: str, besides: str) -> tuple[int, int]:
        """Return number and stored characters of an address's messages, except `besides`."""
        length = peewee.fn.COALESCE(peewee.fn.SUM(peewee.fn.LENGTH(Row.content)), 0)  # keys are short
        others = (Row.address == address) & (Row.digest != _digest(besides))
        ((count, stored),) = self._database.select(Row.select(peewee.fn.COUNT(Row.id), length).where(others))
        return int(count), int(stored)

    def changed_since(self, time: float) -> list[str]:
        """Return the addresses with a message stored since a time (epoch seconds)."""
        query = Row.select(Row.address).distinct().where(Row.changed_at >= time)
        return [str(address) for (address,) in self._database.select(query)]

    def put(self, address: str, key: str, content: Json, now: float) -> None:
        """Store a message in place of its key's earlier one, and announce the commit."""
        digest = _digest(key)
        same = (Row.address == address) & (Row.digest == digest)
        kept = self._encryption.encrypt(dump(content))
        if self._database.select(Row.select(Row.id).where(same)):
            self._database.change(Row.update(content=kept, changed_at=now).where(same))
        else:
            self._database.change(Row.insert(address=address, digest=digest, key=key, content=kept, changed_at=now))
        self._database.after_commit(partial(self._database.listeners.message_stored, address))

    def clear(self, address: str) -> None:
        """Remove all messages of an address."""
        self._database.change(Row.delete().where(Row.address == address))


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
