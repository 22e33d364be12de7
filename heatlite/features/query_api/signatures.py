"""AWS signatures of requests, version 4 and version 2.

Version 4 is in a header or the query, version 2 in the query or a form.
All of it is pure: a message, a secret and a time give an answer.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from heatlite.features.query_api.errors import Code, QueryError

ALGORITHM: Final = "AWS4-HMAC-SHA256"
TOLERANCE: Final = 15 * 60.0
"""Seconds that the clock of a client may be off."""
LONGEST: Final = 7 * 86400
"""Longest validity in seconds of a request whose signature is in the query."""

Pairs = Sequence[tuple[str, str]]


class Message(Struct, frozen=True):
    """A request as it arrived."""

    method: str
    path: str
    """Decoded."""
    query: Pairs
    """Decoded parameters of the URL, in their order."""
    form: Pairs
    """Decoded parameters of the body; empty for another kind of body."""
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes


class SignatureClaim(Struct, frozen=True):
    """A signature with all that it says about itself."""

    version: int
    access_key: str
    signature: str
    signed_at: float | None
    """Seconds since the epoch; None: version 2 without a Timestamp."""
    expires_at: float | None = None
    time: str = ""
    """The time as written; version 4."""
    scope: tuple[str, ...] = ()
    """Date, region, service and ``aws4_request``; version 4."""
    signed_headers: tuple[str, ...] = ()

    def check_time(self, now: float) -> None:
        """Raise QueryError unless the request is of this time."""
        if self.signed_at is not None and self.signed_at > now + TOLERANCE:
            raise QueryError(Code.RequestExpired)
        if self.expires_at is not None:
            if self.expires_at < now:
                raise QueryError(Code.RequestExpired)
        elif self.signed_at is not None and self.signed_at < now - TOLERANCE:
            raise QueryError(Code.RequestExpired)


def read(message: Message) -> SignatureClaim:
    """Return the signature of a request.

    Raises QueryError without one, and for one that cannot be read.
    """
    query = dict(message.query)
    header = message.headers.get("authorization", "")
    if header.startswith(ALGORITHM):
        parts = dict(part.strip().partition("=")[::2] for part in header.removeprefix(ALGORITHM).split(","))
        return _version_4(parts, message.headers.get("x-amz-date", ""), None)
    if query.get("X-Amz-Algorithm") == ALGORITHM:
        parts = {name.removeprefix("X-Amz-"): value for name, value in query.items()}
        return _version_4(parts, parts.get("Date", ""), parts.get("Expires", ""))
    given = {**query, **dict(message.form)}
    if "Signature" not in given:
        raise QueryError(Code.MissingAuthenticationToken)
    if given.get("SignatureVersion") != "2":
        raise _unreadable("SignatureVersion is not 2, and there is no signature of version 4")
    if given.get("SignatureMethod", "HmacSHA256") != "HmacSHA256":
        raise _unreadable("SignatureMethod is not HmacSHA256")
    if not given.get("AWSAccessKeyId"):
        raise _unreadable("AWSAccessKeyId is missing")
    signed_at, expires_at = (None if name not in given else _iso(given[name]) for name in ("Timestamp", "Expires"))
    return SignatureClaim(2, given["AWSAccessKeyId"], given["Signature"], signed_at, expires_at)


def _version_4(parts: Mapping[str, str], time: str, valid: str | None) -> SignatureClaim:
    missing = [name for name in ("Credential", "SignedHeaders", "Signature") if not parts.get(name)]
    if missing:
        raise _unreadable(f"{missing[0]} is missing")
    access_key, *scope = parts["Credential"].split("/")
    if len(scope) != 4 or scope[3] != "aws4_request":
        raise _unreadable("Credential is not KEY/DATE/REGION/SERVICE/aws4_request")
    headers = tuple(parts["SignedHeaders"].split(";"))
    if "host" not in headers:
        raise _unreadable("SignedHeaders lacks host")
    try:
        signed_at = datetime.strptime(time, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise _unreadable("X-Amz-Date is not of the form 20150830T123600Z") from None
    if time[:8] != scope[0]:
        raise _unreadable("the dates of Credential and X-Amz-Date differ")
    expires_at = None
    if valid is not None:
        if not re.fullmatch(r"[0-9]{1,6}", valid, re.ASCII) or int(valid) > LONGEST:
            raise _unreadable(f"X-Amz-Expires is not a number of seconds up to {LONGEST}")
        expires_at = signed_at + int(valid)
    return SignatureClaim(4, access_key, parts["Signature"], signed_at, expires_at, time, tuple(scope), headers)


def _iso(text: str) -> float:
    """Return a time of version 2; one without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise _unreadable(f"{text} is not a time in ISO 8601") from None


def matches(message: Message, claim: SignatureClaim, secret: str) -> bool:
    """Test whether the signature is the one that the secret gives."""
    right = _sign_4(message, claim, secret) if claim.version == 4 else _sign_2(message, secret)
    return hmac.compare_digest(claim.signature.encode(), right.encode())


def _sign_2(message: Message, secret: str) -> str:
    pairs = [pair for pair in (*message.query, *message.form) if pair[0] != "Signature"]
    host = message.headers.get("host", "").lower()
    text = f"{message.method}\n{host}\n{message.path or '/'}\n{_joined(pairs)}"
    return base64.b64encode(hmac.digest(secret.encode(), text.encode(), hashlib.sha256)).decode()


def _sign_4(message: Message, claim: SignatureClaim, secret: str) -> str:
    headers = "".join(f"{name}:{' '.join(message.headers.get(name, '').split())}\n" for name in claim.signed_headers)
    request = "\n".join(
        (
            message.method,
            quote(message.path or "/", safe="/-_.~"),
            _joined([pair for pair in message.query if pair[0] != "X-Amz-Signature"]),
            headers,
            ";".join(claim.signed_headers),
            hashlib.sha256(message.body).hexdigest(),
        )
    )
    text = "\n".join((ALGORITHM, claim.time, "/".join(claim.scope), hashlib.sha256(request.encode()).hexdigest()))
    key = b"AWS4" + secret.encode()
    for part in claim.scope:
        key = hmac.digest(key, part.encode(), hashlib.sha256)
    return hmac.digest(key, text.encode(), hashlib.sha256).hex()


def _joined(pairs: Pairs) -> str:
    """Return parameters in the canonical form: encoded, then sorted."""
    encoded = sorted((_quoted(name), _quoted(value)) for name, value in pairs)
    return "&".join(f"{name}={value}" for name, value in encoded)


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")


def _unreadable(reason: str) -> QueryError:
    return QueryError(Code.IncompleteSignature, reason=reason)
