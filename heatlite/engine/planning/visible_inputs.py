"""What a template can see of the files and the defaults that come with a request.

The rest may change without touching the stack that is made of the template. Names that a function puts together are
not seen; an update that passes such a change by is done by the next one.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from heatlite.core.json import Json, JsonMap, dump
from heatlite.template.environment import Environment

WORD = re.compile(r"[\w.-]+")


def in_sight(
    template: Mapping[str, Json], environment: Environment, files: Mapping[str, str]
) -> tuple[JsonMap, dict[str, str]]:
    """The environment with those `parameter_defaults`, and those files, that the template or one of these names."""
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
