"""Differences between two definitions of a stack.

Evaluates no value and asks no cloud.
"""

from collections.abc import Iterable, Mapping

from heatlite.core.json import Json, JsonMap
from heatlite.core.redaction.masking import MASK, Mask
from heatlite.template.document import Definition

MAX_NAMES = 50
"""Names in one list; further names are counted."""
MAX_VALUE = 200
"""Characters of a parameter's value; the rest is cut off."""


def definition_diff(before: Definition, after: Definition, template_id: str, mask: Mask) -> JsonMap:
    """Return the differences between two definitions as JSON.

    `mask` hides the secrets of the new one. ``template`` is the SHA-256 of the new template and its files.
    """
    old, new = before.template, after.template
    shared = old.resources.keys() & new.resources.keys()
    given, wanted = before.environment.parameters, after.environment.parameters
    changed = [name for name in sorted({*given, *wanted}) if given.get(name) != wanted.get(name)]
    sections = {
        "parameter_defaults": before.environment.parameter_defaults != after.environment.parameter_defaults,
        "resource_registry": before.environment.resource_registry != after.environment.resource_registry,
        "event_sinks": before.environment.event_sinks != after.environment.event_sinks,
    }
    return {
        "template": template_id,
        "added": _named(new.resources.keys() - shared),
        "removed": _named(old.resources.keys() - shared),
        "changed": _named(name for name in shared if old.resources[name] != new.resources[name]),
        "files": _named(name for name in {*old.files, *new.files} if old.files.get(name) != new.files.get(name)),
        "parameters": {name: _shown(name, wanted, new.hidden | old.hidden, mask) for name in changed[:MAX_NAMES]},
        "environment": [name for name, differs in sections.items() if differs],
    }


def _named(names: Iterable[str]) -> Json:
    listed = sorted(names)
    rest = len(listed) - MAX_NAMES
    return [*listed[:MAX_NAMES], f"and {rest} more"] if rest > 0 else listed


def _shown(name: str, values: Mapping[str, Json], hidden: frozenset[str], mask: Mask) -> Json:
    """Return the new value of a parameter; null if it returns to its default."""
    value = values.get(name)
    if value is None:
        return None
    if name in hidden:
        return MASK
    shown = mask.json(value)
    text = str(shown)
    return shown if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"
