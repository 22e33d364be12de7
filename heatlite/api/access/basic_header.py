"""The header Authorization of HTTP Basic (RFC 7617)."""

import binascii
from base64 import b64decode


def credentials(header: str) -> tuple[str, bytes]:
    """Return name and password of an Authorization header; an empty name if invalid."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return "", b""
    try:
        name, _, password = b64decode(encoded.strip(), validate=True).partition(b":")
        return name.decode(), password
    except (binascii.Error, ValueError):
        return "", b""
