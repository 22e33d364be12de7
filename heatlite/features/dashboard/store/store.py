"""Sessions of the dashboard. The rows hold digests of their ids."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from heatlite.core.config import Settings
from heatlite.features.dashboard.store.tables import MODELS, UiSession
from heatlite.store.feature_store import FeatureStore, OldRows
from heatlite.store.rows import Rows


class UiSessionRecord(Struct, frozen=True):
    """A session. `content` is encrypted with a key that the server does not keep."""

    digest: str
    user: str
    content: str
    expires_at: float


_ROWS = Rows(UiSessionRecord, UiSession)


class SessionStore(FeatureStore):
    """Sessions by the digest of their id."""

    tables = MODELS

    def insert(self, record: UiSessionRecord) -> None:
        """Add a session."""
        self.database.change(UiSession.insert(_ROWS.cells(record)))

    def get(self, digest: str) -> UiSessionRecord | None:
        """Return a session, expired or not."""
        rows = self.database.select(UiSession.select(*_ROWS.selected()).where(UiSession.digest == digest))
        return next(iter(_ROWS.records(rows)), None)

    def update(self, digest: str, content: str) -> None:
        """Replace the content of a session, unless it has ended."""
        self.database.change(UiSession.update(content=content).where(UiSession.digest == digest))

    def old_rows(self, settings: Settings, now: float, limit: int) -> Iterator[OldRows]:
        yield self.remove, self.expired_before(now, limit)

    def expired_before(self, moment: float, limit: int) -> list[str]:
        """Return digests of sessions that expired before a moment."""
        found = UiSession.select(UiSession.digest).where(UiSession.expires_at < moment).limit(limit)
        return [digest for (digest,) in self.database.select(found)]

    def surplus(self, user: str, limit: int) -> list[str]:
        """Return digests of the oldest sessions of a user beyond a number."""
        own = UiSession.select(UiSession.digest).where(UiSession.user == user)
        # MariaDB has no OFFSET without a LIMIT.
        oldest = own.order_by(UiSession.expires_at.desc(), UiSession.digest).limit(1000).offset(limit)
        return [digest for (digest,) in self.database.select(oldest)]

    def remove(self, digests: Sequence[str]) -> None:
        """Remove sessions."""
        self.database.change(UiSession.delete().where(UiSession.digest.in_(list(digests))))
