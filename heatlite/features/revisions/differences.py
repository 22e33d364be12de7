"""Differences between two revisions, and how a caller may see a definition."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from heatlite.core.json import Json, JsonMap, as_map, same
from heatlite.core.redaction.masking import MASK, Mask
from heatlite.template.source.loader import Path

SECTIONS: Final = ("parameters", "parameter_defaults", "resource_registry")
VALUES: Final = frozenset({"parameters", "parameter_defaults"})
"""Sections with values of parameters, by name."""


class Content(Struct, frozen=True):
    """All that a revision gives a stack."""

    template: Mapping[str, Json]
    files: Mapping[str, str]
    environment: JsonMap
    tags: tuple[str, ...]
    timeout_mins: int | None
    disable_rollback: bool

    @property
    def tree(self) -> JsonMap:
        """The content under the places of a diff."""
        environment = {**{name: {} for name in SECTIONS}, **self.environment}
        rest = {"tags": [*self.tags], "timeout_mins": self.timeout_mins, "disable_rollback": self.disable_rollback}
        return {**self.template, "environment": environment, "files": {**self.files}, **rest}


class RevisionChange(Struct, frozen=True):
    """A difference of two contents. None: there is no such place."""

    path: Path
    old: Json
    new: Json


class Veil(Struct, frozen=True):
    """Masks what is hidden in definitions."""

    mask: Mask
    hidden: frozenset[str]
    """Names of hidden parameters."""

    def template(self, document: Mapping[str, Json]) -> JsonMap:
        """Return a template without hidden values, also without hidden defaults."""
        return {name: self._value((name,), value) for name, value in document.items()}

    def files(self, files: Mapping[str, str]) -> dict[str, str]:
        """Return files without hidden values."""
        return {name: self.mask.text(text) for name, text in files.items()}

    def change(self, change: RevisionChange) -> RevisionChange:
        """Return a change without hidden values."""
        path = tuple(self.mask.text(str(step)) for step in change.path)
        return RevisionChange(path, self._value(change.path, change.old), self._value(change.path, change.new))

    def _value(self, path: Path, value: Json) -> Json:
        """Return what a definition has at a place, masked."""
        if value is None:
            return None
        match path:
            case ("environment", "event_sinks", *_):
                return MASK
            case ("environment", section, name, *_) if section in VALUES and name in self.hidden:
                return MASK
            case ("parameters" | "Parameters",):
                return {name: self._value((*path, name), one) for name, one in as_map(value).items()}
            case ("parameters" | "Parameters", name) if name in self.hidden and isinstance(value, Mapping):
                return {key: MASK if _is_default(key) else self.mask.json(one) for key, one in value.items()}
            case ("parameters" | "Parameters", name, key, *_) if name in self.hidden and _is_default(key):
                return MASK
        return self.mask.json(value)


def changes(old: Content, new: Content) -> Iterator[RevisionChange]:
    """Yield the differences of two contents. Lists differ as a whole."""
    return _changes(old.tree, new.tree, ())


def _changes(old: Json | UnsetType, new: Json | UnsetType, path: Path) -> Iterator[RevisionChange]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in {**old, **new}:
            yield from _changes(old.get(name, UNSET), new.get(name, UNSET), (*path, name))
        return
    before, after = (None if isinstance(one, UnsetType) else one for one in (old, new))
    if old is UNSET or new is UNSET or not same(before, after):
        yield RevisionChange(path, before, after)


def _is_default(key: str | int) -> bool:
    return key in ("default", "Default")
