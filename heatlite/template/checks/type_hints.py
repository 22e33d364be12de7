"""Hints for resource types that could not be found."""

import difflib
from collections.abc import Iterable


def hint_for_type(name: str, known: Iterable[str], mapped_to: str = "") -> str:
    """Return the known type that was probably meant, or the reason why there is none.

    `mapped_to` is the type that a registry gives instead. A type of another service is never suggested.
    """
    if mapped_to:
        return f'the registry maps it to "{mapped_to}", which could not be found'
    family, _, noun = name.rpartition("::")
    families: dict[str, list[str]] = {}
    for one in known:
        prefix, _, last = one.rpartition("::")
        families.setdefault(prefix, []).append(last)
    if family not in families:
        near = difflib.get_close_matches(family, families, n=1, cutoff=0.8)
        if not near or noun not in families[near[0]]:
            return "no environment maps it to a known type"
        family = near[0]
    nouns = difflib.get_close_matches(noun, families[family], n=1)
    return f'did you mean "{family}{"::" if family else ""}{nouns[0]}"?' if nouns else ""
