"""Encryption of secrets in the database, with keys outside it."""

import base64
import fcntl
import hmac
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from heatlite.core.config import BadSetting
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.json import JsonMap, dump, parse
from heatlite.core.runtime.extras import MissingLibrary
from heatlite.store.database.ownership import give_to_owner
from heatlite.store.errors import MissingKey, UnreadableSecret

PREFIX = "fernet1:"
"""Prefix of an encrypted text, before a Fernet token (AES-128 in CBC mode, HMAC-SHA256). No JSON begins with it."""

KEY_FILE = "heatlite.key"
KEY = re.compile(r"[A-Za-z0-9_-]{43}=")


def key_file(database: Path) -> Path:
    """Return the path of a SQLite database's key file, used without a setting."""
    return database.with_name(KEY_FILE)


def new_key() -> str:
    """Return a new key: 32 random bytes in URL-safe base64."""
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


class Cipher:
    """Encrypts with the first key, decrypts with any."""

    def __init__(self, keys: Sequence[str], origin: str) -> None:
        """`origin` names the source of the keys in error messages, which never show a key.

        Raises BadSetting for an invalid key; ImportError without the library.
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
        """Return the encrypted text: ``fernet1:…``."""
        return PREFIX + self._fernet.encrypt(text.encode(errors="surrogatepass")).decode()

    def decrypt_text(self, sealed: str) -> str:
        """Return the text given to `encrypt_text`. Raises UnreadableSecret."""
        try:
            return self._fernet.decrypt(self._token(sealed)).decode(errors="surrogatepass")
        except self._refusal:
            raise UnreadableSecret(keys=self._origin) from None

    def encrypt(self, secret: JsonMap) -> str:
        """Return a JSON object encrypted, as `encrypt_text` does."""
        return self.encrypt_text(dump(secret))

    def decrypt(self, sealed: str) -> JsonMap:
        """Return the object given to `encrypt`. Raises UnreadableSecret."""
        secret: JsonMap = parse(self.decrypt_text(sealed))
        return secret

    def rotate(self, sealed: str) -> str:
        """Return the secret encrypted with the first key. Raises UnreadableSecret."""
        try:
            return PREFIX + self._fernet.rotate(self._token(sealed)).decode()
        except self._refusal:
            raise UnreadableSecret(keys=self._origin) from None

    def sign(self, text: str) -> str:
        """Return the HMAC-SHA256 of a text with the first key, in hex."""
        return hmac.digest(self._signing[0], text.encode(), "sha256").hex()

    def verify(self, text: str, signature: str) -> bool:
        """Return whether the signature was made with one of the keys."""
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
    """Return the cipher of an installation.

    Its keys are the setting `encryption_keys`, else the key file beside the SQLite `database`, created if missing.
    `database` is None for a server. Returns None without a key, or without the library if the setting is empty; then
    secrets must not be stored. Raises BadSetting; DatabaseUnavailable if the key file cannot be read or created;
    MissingKey if it is missing and the database `has_secrets`.
    """
    if not keys and database is None:
        return None
    try:
        import cryptography.fernet  # noqa: F401 - checked before a useless key file is created
    except ImportError as error:
        if not keys:
            return None
        raise MissingLibrary("encryption_keys", "cryptography", "server") from error
    if keys:
        return Cipher(keys, "encryption_keys")
    assert database is not None
    path = key_file(database)
    try:
        if not path.exists() or not path.stat().st_size:
            if has_secrets():
                raise MissingKey(path=path)
            _make(path)
            give_to_owner(path, database if database.exists() else database.parent)
        key = path.read_text("ascii", errors="replace").strip()
    except OSError as error:
        raise DatabaseUnavailable(reason=f"the key file {path}: {error.strerror}") from error
    return Cipher([key], str(path))


def _make(path: Path) -> None:
    """Write a new key file; of several processes one writes it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # An empty file belongs to a process that is about to write the key, or died before. A lock, unlike O_EXCL, is
        # released with the process, so that another one can continue.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_size == 0:
            os.write(descriptor, f"{new_key()}\n".encode())
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    # A power cut must not lose the file's name while data encrypted with its key survives.
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
