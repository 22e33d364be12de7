"""The mailbox that resources see (`plugin.ports.Mailbox`), over the store."""

from heatlite.core.clock import Clock
from heatlite.core.json import Json
from heatlite.store.store import Store


class StoredMailbox:
    """Mailbox in the store. Each change is a transaction, or part of the thread's."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def read(self, address: str) -> dict[str, Json]:
        return self._store.messages.read(address)

    def size(self, address: str, besides: str) -> tuple[int, int]:
        return self._store.messages.size(address, besides)

    def put(self, address: str, key: str, content: Json) -> None:
        with self._store.transaction():
            self._store.messages.put(address, key, content, self._clock.now())

    def agree(self, address: str, key: str, content: Json) -> Json:
        with self._store.transaction():
            self._store.limit_locks.take(f"messages of {address}")
            kept = self._store.messages.read(address)
            if key not in kept:
                self._store.messages.put(address, key, content, self._clock.now())
            return kept.get(key, content)

    def clear(self, address: str) -> None:
        with self._store.transaction():
            self._store.messages.clear(address)
