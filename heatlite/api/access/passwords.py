"""`auth` = ``basic``: a name and a password (RFC 7617)."""

import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock

import bcrypt

from heatlite.api.access.account_files import WatchedFile, parse_passwords, parse_roles, roles_file
from heatlite.api.access.authentication import Identity
from heatlite.api.access.basic_header import credentials
from heatlite.api.access.login_throttle import LoginThrottle, Network, address_of
from heatlite.api.request import Request
from heatlite.core.config import BadSetting

REMEMBERED_SECONDS = 60.0
"""Seconds after its last use in which a correct password skips bcrypt, which takes 0.25 s."""
ROUNDS = 10
MAX_BYTES = 72
"""Bytes of a password that bcrypt uses."""


MAX_REMEMBERED = 10_000
"""Passwords that are remembered. The least recent go first."""
SALT = os.urandom(32)


class Basic:
    """Identifies callers by name and password. Safe for threads."""

    challenge = 'Basic realm="heatlite", charset="UTF-8"'

    def __init__(self, users_file: Path, now: Callable[[], float], trusted: Sequence[Network] = ()) -> None:
        """`trusted` are the proxies whose X-Forwarded-For is believed. Raises BadSetting."""
        self._passwords = WatchedFile(users_file, "The list of users", parse_passwords)
        self._roles = WatchedFile(roles_file(users_file), "The list of roles", parse_roles)
        self._now = now
        self._file = str(users_file).encode()
        self._throttle = LoginThrottle(now)
        self._remembered: OrderedDict[bytes, float] = OrderedDict()
        """Digests of correct passwords → times until which they count."""
        self._lock = Lock()
        self._trusted = trusted

    def identify(self, req: Request) -> Identity | None:
        """Return the caller of a correct password.

        Raises TooManyFailures, TooManyLogins.
        """
        user, password = credentials(req.env.get("HTTP_AUTHORIZATION", ""))
        if not user:
            return None
        known, address = self._passwords.get(), address_of(req, self._trusted)
        key = self._key(user, password, known.get(user, ""))
        if not self._is_remembered(key):  # failures of others do not keep a remembered caller out
            self._throttle.ask(user, address)
            with self._throttle.checks.turn():
                # The request may have waited behind another one of the same caller.
                is_right = self._is_remembered(key) or self._is_right(user, password, known)
            if not is_right:
                self._throttle.failed(user, address)
                return None
            self._throttle.passed(user, address)
        self._remember(key)
        return Identity(user, self._roles.get().get(user, {}))

    def roles(self, user: str, project: str) -> frozenset[str]:
        """Return the roles of a user who has a password."""
        own = self._roles.get().get(user, {}) if user in self._passwords.get() else {}
        return own.get(project, frozenset())

    def _is_right(self, user: str, password: bytes, known: Mapping[str, str]) -> bool:
        if user in known:
            return self._check(password, known[user])
        for hashed in [*known.values()][:1]:
            self._check(password, hashed)  # an unknown name takes as long as a known one
        return False

    def _key(self, user: str, password: bytes, hashed: str) -> bytes:
        parts = (SALT, self._file, user.encode(), hashed.encode(), password)
        return hashlib.sha256(b"".join(len(part).to_bytes(4) + part for part in parts)).digest()

    def _is_remembered(self, key: bytes) -> bool:
        return self._remembered.get(key, 0.0) > self._now()

    def _remember(self, key: bytes) -> None:
        with self._lock:
            self._remembered[key] = self._now() + REMEMBERED_SECONDS
            self._remembered.move_to_end(key)
            while len(self._remembered) > MAX_REMEMBERED:
                self._remembered.popitem(last=False)

    @staticmethod
    def _check(password: bytes, hashed: str) -> bool:
        return b"\0" not in password and bcrypt.checkpw(password[:MAX_BYTES], hashed.encode())


def hash_password(password: str) -> str:
    """Hash a password for the file.

    Raises BadSetting for one that bcrypt would truncate.
    """
    raw = password.encode()
    if not raw or len(raw) > MAX_BYTES or b"\0" in raw:
        raise BadSetting(f"A password has 1 to {MAX_BYTES} bytes, and no NUL.")
    return bcrypt.hashpw(raw, bcrypt.gensalt(ROUNDS)).decode()
