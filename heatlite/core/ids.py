"""Identifiers."""

import base64
import secrets
import time
import uuid


def new_id() -> str:
    """A UUID (version 7, RFC 9562): later ones sort after earlier ones."""
    millis = time.time_ns() // 1_000_000
    tail = secrets.randbits(74)
    value = (millis << 80) | (0x7 << 76) | ((tail >> 62) << 64) | (0b10 << 62) | (tail & ((1 << 62) - 1))
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def random_id() -> str:
    """Return a UUID (version 4, RFC 9562) with distinct first characters.

    People like to abbreviate it.
    """
    return str(uuid.UUID(int=secrets.randbits(128), version=4))


def short_id(identifier: str) -> str:
    """Twelve lower-case letters and digits drawn from the random part of a UUID."""
    return base64.b32encode(bytes.fromhex(identifier.replace("-", "")[16:]))[:12].decode().lower()


def physical_name(stack_name: str, resource_name: str, identifier: str, limit: int = 255) -> str:
    """Return the name of the real object: ``<stack>-<resource>-<12 characters>``.

    Longer ones keep their first two and their last characters, as Heat's do. The name depends on
    nothing but the row, so an object can be found again after a crash.
    """
    name = f"{stack_name}-{resource_name}-{short_id(identifier)}"
    if len(name) <= limit:
        return name
    return f"{name[:2]}-{name[-(limit - 3):]}"
