"""Bodies of repairs by hand."""

from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import Json
from heatlite.core.validation import options
from heatlite.features.healing.by_hand import HealRequest
from heatlite.features.healing.terms import IGNORABLE


def heal(value: Json) -> HealRequest:
    """Parse the value of `heal`."""
    asked = options(value, HealRequest, "heal")
    for at, name in enumerate(asked.ignore):
        if name not in IGNORABLE:
            raise HTTPBadRequest(f"heal.ignore[{at}]: must be one of: {', '.join(sorted(IGNORABLE))}.")
    return asked
