"""Files and defaults of a request that a template names.

All others may change without a change of the stack. Names that a function composes are not found: such a change takes
effect with the next update.
"""

import re
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from heatlite.core.json import Json, JsonMap, dump
from heatlite.template.environment import Environment

WORD = re.compile(r"[\w.-]+")


def visible_inputs(
    template: Mapping[str, Json], environment: Environment, files: Mapping[str, str]
) -> tuple[JsonMap, dict[str, str]]:
    """Return the named files, and the environment with the named `parameter_defaults`.

    Names may be indirect.
    """
    defaults = environment.parameter_defaults
    shown = replace(environment, parameter_defaults={})
    text, words = "", frozenset[str]()
    more = f"{dump(template)} {dump(shown.to_dict())}"
    seen_defaults: JsonMap = {}
    seen_files: dict[str, str] = {}
    while more:
        text, words = f"{text} {more}", words.union(WORD.findall(more))
        new_defaults = {name: defaults[name] for name in defaults if name in words and name not in seen_defaults}
        new_files = {
            name: files[name] for name in files if name not in seen_files and name.rpartition("/")[2] in text
        }
        seen_defaults |= new_defaults
        seen_files |= new_files
        more = " ".join([*(dump(value) for value in new_defaults.values()), *new_files.values()])
    return replace(environment, parameter_defaults=seen_defaults).to_dict(), seen_files


def still_named(
    template: Mapping[str, Json],
    environment: Environment,
    types: Iterable[str],
    stored: Mapping[str, str],
    given: Mapping[str, str],
) -> set[str]:
    """Return the names of stored files that a definition needs beside the given ones.

    `types` are those of the resources that are there. Names may be indirect, but not if a given file has the same last
    part: then it is the same file in another folder.
    """
    moved = {name.rpartition("/")[2] for name in given}
    text = " ".join([dump(template), dump(environment.to_dict()), *types, *given.values()])
    left, found = {**stored}, set[str]()
    while new := [name for name in left if (name if (last := name.rpartition("/")[2]) in moved else last) in text]:
        found.update(new)
        text = f"{text} {' '.join(left.pop(name) for name in new)}"
    return found
