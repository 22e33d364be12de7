"""The rows of delegations: credentials by which authors are asked again."""

from collections.abc import Sequence
from pathlib import Path

from heatlite.core.errors import NotSupported
from heatlite.core.ids import new_id
from heatlite.core.json import JsonMap, dump, parse
from heatlite.features.schedules.store.tables import Delegation
from heatlite.store.feature_store import ConsistencyRule, FeatureStore, Series

MAX_RELEASED = 100
"""Released delegations that are read at once."""


class DelegationStore(FeatureStore):
    """Credentials of schedules and expiries, stored encrypted only.

    The owner is the schedule, or the stack that expires. One without an owner is released: it is to be revoked.
    """

    tables = (Delegation,)
    series = Series("schedules", Path(__file__).parent)
    rules = (
        ConsistencyRule(
            "a delegation has an owner, or is released",
            "delegation",
            "SELECT id, owner_id FROM delegation WHERE NOT released"
            " AND NOT EXISTS (SELECT 1 FROM schedule WHERE schedule.id = owner_id)"
            " AND NOT EXISTS (SELECT 1 FROM expiry WHERE expiry.stack_id = owner_id)",
        ),
    )

    def put(self, stack_id: str, owner_id: str, credential: JsonMap | None) -> None:
        """Store the credential of an owner, and release its former one.

        Raises NotSupported without a key.
        """
        self.release(owner_id)
        if credential is None:
            return
        cipher = self.encryption.cipher
        if cipher is None:
            raise NotSupported(feature="Storing a credential without encryption_keys")
        content = cipher.encrypt_text(dump(credential))
        row = {"id": new_id(), "stack_id": stack_id, "owner_id": owner_id, "credential": content, "released": False}
        self.database.change(Delegation.insert(row))

    def of(self, owner_id: str) -> JsonMap | None:
        """Return the credential of an owner, if it has one. Raises UnreadableSecret."""
        kept = Delegation.select(Delegation.credential).where(
            Delegation.owner_id == owner_id, Delegation.released == False  # noqa: E712  # a condition of SQL
        )
        for (content,) in self.database.select(kept):
            found: JsonMap = parse(self.encryption.decrypt(content))
            return found
        return None

    def release(self, owner_id: str) -> None:
        """Let the credential of an owner be revoked."""
        self.database.change(Delegation.update(released=True).where(Delegation.owner_id == owner_id))

    def stacks_removed(self, stack_ids: Sequence[str]) -> None:
        self.database.change(Delegation.update(released=True).where(Delegation.stack_id.in_(stack_ids)))

    def released(self) -> list[tuple[str, str]]:
        """Return ids and encrypted credentials that are to be revoked."""
        columns = (Delegation.id, Delegation.credential)
        found = Delegation.select(*columns).where(Delegation.released).order_by(Delegation.id).limit(MAX_RELEASED)
        return [(str(key), str(content)) for key, content in self.database.select(found)]

    def remove(self, delegation_id: str) -> None:
        """Remove one that is revoked."""
        self.database.change(Delegation.delete().where(Delegation.id == delegation_id))
