"""Sessions: cookies, and rows with encrypted credentials."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping

from cryptography.fernet import Fernet, InvalidToken
from msgspec.structs import replace

from heatlite.core.clock import Clock
from heatlite.core.json import dump, parse
from heatlite.core.redaction.secret_fields import HidesSecrets
from heatlite.features.dashboard.store.store import SessionStore, UiSessionRecord
from heatlite.store.store import Store

ID_BYTES = 32
MAX_SESSIONS = 100
"""Sessions of a user."""


class Visitor(HidesSecrets, frozen=True):
    """The user of a browser."""

    secret_fields = frozenset({"credentials", "tokens"})

    key: str
    """Id of the session, or of the browser before a login."""
    user: str = ""
    """Empty before a login, and without authentication."""
    credentials: Mapping[str, str] = {}
    """Keys of the WSGI environment for requests to the API."""
    projects: Mapping[str, str] = {}
    """Projects of the user → names to show."""
    tokens: Mapping[str, str] | None = None
    """Tokens by project, if each project needs its own. None: `credentials` are for all."""

    @property
    def csrf(self) -> str:
        """The token that each form of this session has."""
        return derived(self.key, "csrf").hex()

    @property
    def cipher(self) -> Fernet:
        """A cipher for values that the next form of this session brings back."""
        return _cipher(self.key, "forms")

    def is_own(self, token: str) -> bool:
        """Return True if a form has this session's token."""
        return hmac.compare_digest(token.encode(errors="replace"), self.csrf.encode())


class Sessions:
    """The sessions of all browsers, in the database.

    A row has the digest of the session's id. Its credentials are encrypted with a key that only the id yields, so the
    database alone reveals neither.
    """

    def __init__(self, store: Store, clock: Clock, lifetime: float) -> None:
        """`lifetime` is in seconds."""
        self._store = store
        self._rows = store.of(SessionStore)
        self._clock = clock
        self.lifetime = lifetime

    def begin(
        self,
        user: str,
        credentials: Mapping[str, str],
        projects: Mapping[str, str],
        tokens: Mapping[str, str] | None = None,
    ) -> Visitor:
        """Store a new session, and end the oldest ones of a user with too many.

        The values are those of its `Visitor`.
        """
        made = Visitor(new_key(), user, credentials, projects, tokens)
        with self._store.transaction():
            self._store.limit_locks.take(f"sessions of {user}")
            self._rows.insert(
                UiSessionRecord(digest(made.key), user, _sealed(made), self._clock.now() + self.lifetime)
            )
            self._rows.remove(self._rows.surplus(user, MAX_SESSIONS))
        return made

    def add_token(self, visitor: Visitor, project: str, token: str) -> Visitor:
        """Store the token of a project in a session. Returns its visitor."""
        changed = replace(visitor, tokens={**(visitor.tokens or {}), project: token})
        with self._store.transaction():
            self._rows.update(digest(visitor.key), _sealed(changed))
        return changed

    def find(self, key: str) -> Visitor | None:
        """Return the visitor of a session that has not expired."""
        found = self._rows.get(digest(key))
        if found is None or found.expires_at <= self._clock.now():
            return None
        try:
            content = parse(_cipher(key).decrypt(found.content.encode()))
        except InvalidToken:
            return None
        return Visitor(key, found.user, content["credentials"], content["projects"], content.get("tokens"))

    def end(self, key: str) -> None:
        """Remove a session."""
        with self._store.transaction():
            self._rows.remove([digest(key)])


def _sealed(visitor: Visitor) -> str:
    content = {"credentials": visitor.credentials, "projects": visitor.projects, "tokens": visitor.tokens}
    return _cipher(visitor.key).encrypt(dump(content).encode()).decode()


def new_key() -> str:
    """Return a random id for a session."""
    return secrets.token_urlsafe(ID_BYTES)


def digest(text: str) -> str:
    """Return the digest of a text. The database has those of ids."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def derived(key: str, purpose: str) -> bytes:
    """Return 32 bytes that only the id yields, different for each purpose."""
    return hmac.digest(key.encode(errors="replace"), purpose.encode(), "sha256")


def _cipher(key: str, purpose: str = "credentials") -> Fernet:
    return Fernet(base64.urlsafe_b64encode(derived(key, purpose)))
