"""Secrets as they lie in the database: encrypted, with keys that lie elsewhere."""

import base64
import fcntl
import hmac
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from heatlite.core.config import BadSetting
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.json import JsonMap, dump
from heatlite.store.errors import MissingKey, UnreadableSecret

PREFIX = "fernet1:"
"""How the text of a secret begins, before a Fernet token (AES-128 in CBC mode, HMAC-SHA256). No JSON begins so."""

KEY_FILE = "heatlite.key"
KEY = re.compile(r"[A-Za-z0-9_-]{43}=")


def key_file(database: Path) -> Path:
    """The file with the key of a SQLite database, where no setting names one."""
    return database.with_name(KEY_FILE)


def new_key() -> str:
    """A key that nobody has: 32 bytes by chance, in URL-safe base64."""
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


class Cipher:
    """Encrypts and opens secrets. The first key encrypts, all of them open."""

    def __init__(self, keys: Sequence[str], origin: str) -> None:
        """`origin` is where the keys are from, for errors; they never show a key.

        Raises BadSetting for what is no key; ImportError without the library.
        """
        from cryptography.fernet import Fernet, InvalidToken, MultiFernet

        for number, key in enumerate(keys, 1):
            if not KEY.fullmatch(key):
                raise BadSetting(
                    f"{origin}: key {number} of {len(keys)} is not 32 bytes in URL-safe base64 (44 characters)."
                    " `heatlite keys new` prints one."
                )
        self._origin = origin
        self._fernet = MultiFernet([Fernet(key) for key in keys])
        self._signing = [hmac.digest(key.encode(), b"signatures", "sha256") for key in keys]
        self._refusal = InvalidToken

    def encrypt_text(self, text: str) -> str:
        """A text that says by itself how it is encrypted: ``fernet1:…``."""
        return PREFIX + self._fernet.encrypt(text.encode(errors="surrogatepass")).decode()

    def decrypt_text(self, sealed: str) -> str:
        """What `seal` was given. Raises UnreadableSecret."""
        try:
            return self._fernet.decrypt(self._token(sealed)).decode(errors="surrogatepass")
        except self._refusal:
            raise UnreadableSecret(keys=self._origin) from None

    def encrypt(self, secret: JsonMap) -> str:
        """`seal` for an object."""
        return self.encrypt_text(dump(secret))

    def decrypt(self, sealed: str) -> JsonMap:
        """What `encrypt` was given. Raises UnreadableSecret."""
        secret: JsonMap = json.loads(self.decrypt_text(sealed))
        return secret

    def rotate(self, sealed: str) -> str:
        """The same secret, encrypted with the first key. Raises UnreadableSecret."""
        try:
            return PREFIX + self._fernet.rotate(self._token(sealed)).decode()
        except self._refusal:
            raise UnreadableSecret(keys=self._origin) from None

    def sign(self, text: str) -> str:
        """What only somebody with the first key can say of a text."""
        return hmac.digest(self._signing[0], text.encode(), "sha256").hex()

    def verify(self, text: str, signature: str) -> bool:
        """Whether that is what somebody with one of the keys says of it."""
        given = signature.encode(errors="replace")
        made = [hmac.digest(key, text.encode(), "sha256").hex().encode() for key in self._signing]
        return any(hmac.compare_digest(given, one) for one in made)

    def _token(self, sealed: str) -> bytes:
        if not sealed.startswith(PREFIX):
            raise UnreadableSecret(keys=self._origin)
        return sealed[len(PREFIX) :].encode(errors="replace")


def open_cipher(
    keys: Sequence[str], database: Path | None, has_secrets: Callable[[], bool] = lambda: False
) -> Cipher | None:
    """What encrypts the secrets of an installation: with the setting `encryption_keys`, else with the key beside a
    SQLite `database` (None: on a server), which is made if there is none.

    None where there is no key, or no library and nobody has asked for one: then no secret may be stored. Raises
    BadSetting, DatabaseUnavailable where the key file cannot be read or made, and MissingKey where one would have to be
    made although the database `has_secrets`.
    """
    if not keys and database is None:
        return None
    try:
        import cryptography.fernet  # noqa: F401 - looked for before a key is made that nobody uses
    except ImportError as error:
        if not keys:
            return None
        raise BadSetting("encryption_keys: needs cryptography: pip install 'heatlite[crypto]'") from error
    if keys:
        return Cipher(keys, "encryption_keys")
    assert database is not None
    path = key_file(database)
    try:
        if not path.exists() or not path.stat().st_size:
            if has_secrets():
                raise MissingKey(path=path)
            _make(path)
        key = path.read_text("ascii", errors="replace").strip()
    except OSError as error:
        raise DatabaseUnavailable(reason=f"the key file {path}: {error.strerror}") from error
    return Cipher([key], str(path))


def _make(path: Path) -> None:
    """Write a new key, once, by one of those who do so at the same time."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # The file may be there and empty: somebody is about to write the key, or died before. So a lock, which a
        # process that dies lets go of, where O_EXCL would leave nobody to go on.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_size == 0:
            os.write(descriptor, f"{new_key()}\n".encode())
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    # What is encrypted with it must not outlive a power cut that takes the file's name.
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
