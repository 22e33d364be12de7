"""Patterns of resource names (``*``, ``?``, ``[…]``) in an environment."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

from heatlite.core.json import Json

MAX_GLOBS: Final = 100
"""Patterns in a map of resources: each is tried with each resource."""
MAX_GLOB: Final = 255
"""Characters of a pattern: to read ``[[[…`` takes their square."""


def is_glob(name: str) -> bool:
    """Test whether a name is a pattern."""
    return "*" in name or "?" in name or "[" in name


def fault_of_globs(names: Iterable[str]) -> str:
    """Return what is wrong with the patterns in a map of resources, or ""."""
    globs = [name for name in names if is_glob(name)]
    if len(globs) <= MAX_GLOBS and all(len(name) <= MAX_GLOB for name in globs):
        return ""
    return f"there may be {MAX_GLOBS} patterns of at most {MAX_GLOB} characters"


def blocks_for(blocks: Mapping[str, Json], resource_name: str) -> list[Mapping[str, Json]]:
    """Return the maps for a resource; as in Heat, its own is last."""
    found = [
        block for name, block in blocks.items()
        if name != resource_name and is_glob(name) and fnmatchcase(resource_name, name)
    ]  # fmt: skip
    return [block for block in (*found, blocks.get(resource_name)) if isinstance(block, Mapping)]
