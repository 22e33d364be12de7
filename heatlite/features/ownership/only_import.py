"""The rule that a definition only adds what it imports."""

from collections.abc import Collection, Iterator, Mapping

from heatlite.core.json import Json, as_map, same
from heatlite.features.ownership.errors import NotOnlyImport
from heatlite.template.document import Definition

MOST_PLACES = 20


def require(before: Definition, after: Definition, names: Collection[str]) -> None:
    """Raise NotOnlyImport if a definition changes more than it imports.

    It may add parameters, conditions and outputs. `names` are those of the resources.
    """
    places = [*_template(before, after, names), *_environment(before, after)]
    missing = [f"resources.{name} is missing" for name in names if name not in after.resources]
    if places or missing:
        shown = [*missing, *places]
        more = [f"{len(shown) - MOST_PLACES} more"] if len(shown) > MOST_PLACES else []
        raise NotOnlyImport(places=", ".join([*shown[:MOST_PLACES], *more]))


def _template(before: Definition, after: Definition, names: Collection[str]) -> Iterator[str]:
    resources = before.sections["resources"]
    old, new = before.template.document, after.template.document
    for section in dict.fromkeys((*old, *new)):
        one, other = old.get(section), new.get(section)
        if section == resources:
            kept = [{name: value for name, value in as_map(part).items() if name not in names} for part in (one, other)]
            yield from _changed(section, *kept)
            yield from (f"{section}.{name}" for name in kept[1].keys() - kept[0].keys())
        elif isinstance(one, Mapping) or one is None and isinstance(other, Mapping):
            yield from _changed(section, as_map(one), as_map(other))
        elif not same(one, other):
            yield section


def _environment(before: Definition, after: Definition) -> Iterator[str]:
    old, new = before.environment.to_dict(), after.environment.to_dict()
    for section in old:
        one, other = old[section], new.get(section)
        if isinstance(one, Mapping):
            yield from _changed(section, as_map(one), as_map(other))
        elif not same(one, other):
            yield section
    for name, text in before.template.files.items():
        if after.template.files.get(name) != text:
            yield f"file {name}"


def _changed(section: str, before: Mapping[str, Json], after: Mapping[str, Json]) -> Iterator[str]:
    """Yield the entries that are changed or missing."""
    for name, value in before.items():
        if name not in after or not same(value, after[name]):
            yield f"{section}.{name}"
