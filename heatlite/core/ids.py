"""Identifiers."""

import os
import secrets
import time
import uuid

_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS = [first + second for first in _BASE32 for second in _BASE32]


def new_id() -> str:
    """A UUID (version 7, RFC 9562): later ones sort after earlier ones."""
    millis, random = f"{time.time_ns() // 1_000_000:012x}", os.urandom(10)
    digits, variant = random.hex(), "89ab"[random[9] & 3]
    return f"{millis[:8]}-{millis[8:]}-7{digits[:3]}-{variant}{digits[3:6]}-{digits[6:18]}"


def random_id() -> str:
    """Return a UUID (version 4, RFC 9562) with distinct first characters.

    People like to abbreviate it.
    """
    return str(uuid.UUID(int=secrets.randbits(128), version=4))


def short_id(identifier: str) -> str:
    """Twelve lower-case letters and digits drawn from the random part of a UUID."""
    bits = int(identifier[19:23] + identifier[24:35], 16)  # 60, in base 32
    first = f"{_PAIRS[bits >> 50]}{_PAIRS[bits >> 40 & 1023]}{_PAIRS[bits >> 30 & 1023]}"
    return f"{first}{_PAIRS[bits >> 20 & 1023]}{_PAIRS[bits >> 10 & 1023]}{_PAIRS[bits & 1023]}"


def physical_name(stack_name: str, resource_name: str, identifier: str, limit: int = 255) -> str:
    """Return the name of the real object: ``<stack>-<resource>-<12 characters>``.

    Longer ones keep their first two and their last characters, as Heat's do. The name depends on
    nothing but the row, so an object can be found again after a crash.
    """
    name = f"{stack_name}-{resource_name}-{short_id(identifier)}"
    if len(name) <= limit:
        return name
    return f"{name[:2]}-{name[-(limit - 3):]}"
