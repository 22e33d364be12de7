"""`auth` = ``basic``: a name and a password (RFC 7617)."""

import hashlib
import mmap
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from struct import Struct

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


class Remembered:
    """Digests of correct passwords, in memory that forked processes share.

    Each has a time until which it counts. A reader never checks a password: the throttle is the engine's. So it has to
    know the correct ones. Writers take no lock: a digest that two of them have mixed equals none, and its password is
    checked again.
    """

    ENTRY = Struct("32sd")
    WAYS = 8
    """Entries of a bucket; a new digest takes the place of the one that ends first."""
    BUCKETS = 4096

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, self.BUCKETS * self.WAYS * self.ENTRY.size)

    def end(self, digest: bytes) -> float:
        """Return the time until which a password counts as correct; 0 for an unknown one."""
        return next((end for _, found, end in self._bucket(digest) if found == digest), 0.0)

    def put(self, digest: bytes, end: float) -> None:
        """Remember a correct password."""
        at = min(self._bucket(digest), key=lambda entry: (entry[1] != digest, entry[2]))[0]
        self.ENTRY.pack_into(self._memory, at, digest, end)

    def _bucket(self, digest: bytes) -> list[tuple[int, bytes, float]]:
        size = self.ENTRY.size
        first = int.from_bytes(digest[:4]) % self.BUCKETS * self.WAYS
        places = range(first * size, (first + self.WAYS) * size, size)
        return [(at, *self.ENTRY.unpack_from(self._memory, at)) for at in places]


REMEMBERED = Remembered()
"""Those of this process and its forks. Imported before the fork by `preflight`."""
SALT = os.urandom(32)


class Basic:
    """Identifies callers by name and password."""

    challenge = 'Basic realm="heatlite", charset="UTF-8"'

    def __init__(self, users_file: Path, now: Callable[[], float], trusted: Sequence[Network] = ()) -> None:
        """`trusted` are the proxies whose X-Forwarded-For is believed. Raises BadSetting."""
        self._passwords = WatchedFile(users_file, "The list of users", parse_passwords)
        self._roles = WatchedFile(roles_file(users_file), "The list of roles", parse_roles)
        self._now = now
        self._file = str(users_file).encode()
        self._throttle = LoginThrottle(now)
        self._trusted = trusted

    def identify(self, req: Request) -> Identity | None:
        """Return the caller of a correct password.

        Raises TooManyFailures, TooManyLogins, and NeedsEngine in a reader that does not know the password.
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
        return REMEMBERED.end(key) > self._now()

    def _remember(self, key: bytes) -> None:
        REMEMBERED.put(key, self._now() + REMEMBERED_SECONDS)

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
