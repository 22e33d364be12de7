"""HMAC signatures by which agent and server authenticate each other.

Both know one secret, which is never sent. A request carries a nonce and a signature of its content. The signature of
an answer covers the answer and that nonce, so an old answer cannot be replayed. Timestamps are not compared, because
clocks differ. Specified in docs/reference/agent-protocol.md.
"""

import hashlib
import hmac
import secrets

NONCE = "X-Heatlite-Nonce"
SIGNATURE = "X-Heatlite-Signature"
MIN_NONCE = 16
"""Minimum length in characters."""


def new_nonce() -> str:
    """Return a random nonce."""
    return secrets.token_urlsafe(24)


def of_request(secret: str, method: str, path: str, nonce: str, body: bytes) -> str:
    """Return the hex signature of a request. `path` includes the query."""
    return _sign(secret, method, path, nonce, body)


def of_answer(secret: str, status: int, nonce: str, body: bytes) -> str:
    """Return the hex signature of an answer to the request with that nonce."""
    return _sign(secret, str(status), nonce, body)


def is_right(given: str | None, right: str) -> bool:
    """True if the signature matches; compared in constant time."""
    return given is not None and hmac.compare_digest(given.encode(), right.encode())


def _sign(secret: str, *parts: str | bytes) -> str:
    *words, body = parts
    assert isinstance(body, bytes)
    text = "\n".join([*map(str, words), hashlib.sha256(body).hexdigest()])
    return hmac.digest(secret.encode(), text.encode(), "sha256").hex()
