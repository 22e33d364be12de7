"""How an agent and its server prove to each other who they are: both know one secret, and neither ever says it.

A request carries a nonce and a signature of all that it asks, its answer one of all that it says and of that nonce, so
that nobody can answer with what was once answered. Times play no part: clocks differ.
"""

import hashlib
import hmac
import secrets

NONCE = "X-Heatlite-Nonce"
SIGNATURE = "X-Heatlite-Signature"
LEAST_NONCE = 16
"""Characters."""


def new_nonce() -> str:
    """What was never used before."""
    return secrets.token_urlsafe(24)


def of_request(secret: str, method: str, path: str, nonce: str, body: bytes) -> str:
    """The signature of a request, hexadecimal. `path` is as in the request line, with its query."""
    return _sign(secret, method, path, nonce, body)


def of_answer(secret: str, status: int, nonce: str, body: bytes) -> str:
    """The signature of an answer to the request with that nonce."""
    return _sign(secret, str(status), nonce, body)


def is_right(given: str | None, right: str) -> bool:
    """Whether a signature is the right one, in a time that tells nothing of where it differs."""
    return given is not None and hmac.compare_digest(given.encode(), right.encode())


def _sign(secret: str, *parts: str | bytes) -> str:
    *words, body = parts
    assert isinstance(body, bytes)
    text = "\n".join([*map(str, words), hashlib.sha256(body).hexdigest()])
    return hmac.digest(secret.encode(), text.encode(), "sha256").hex()
