"""What has been sent to resources: signals, and whatever else may come while an operation runs."""

import hashlib
import json

from heatlite.core.json import Json, dump
from heatlite.store.database import Database
from heatlite.store.tables import Mail as Row


class Mail:
    """Contents by address and key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, address: str) -> dict[str, Json]:
        """The contents of an address by key, in the order in which their keys were first put."""
        found = self._database.select(Row.select(Row.key, Row.content).where(Row.address == address).order_by(Row.id))
        return {key: json.loads(content) for key, content in found}

    def put(self, address: str, key: str, content: Json) -> None:
        """Keep `content` under `key`, in place of what was there."""
        digest = hashlib.sha256(key.encode()).hexdigest()
        same = (Row.address == address) & (Row.digest == digest)
        if self._database.select(Row.select(Row.id).where(same)):
            self._database.change(Row.update(content=dump(content)).where(same))
        else:
            self._database.change(Row.insert(address=address, digest=digest, key=key, content=dump(content)))

    def clear(self, address: str) -> None:
        """Forget everything of an address."""
        self._database.change(Row.delete().where(Row.address == address))
