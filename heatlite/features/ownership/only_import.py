"""The rule that a definition only adds what it imports."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from heatlite.core.errors import abbreviated
from heatlite.core.json import Json, as_map, same
from heatlite.engine.operations.redefining.tree import DefinedStack, DefinedTree, Path
from heatlite.features.ownership.errors import NotOnlyImport
from heatlite.template.document import Definition
from heatlite.template.source.loader import load_template


def require(tree: DefinedTree, after: Definition, imported: Mapping[Path, Collection[str]]) -> None:
    """Raise NotOnlyImport if the definition of a tree changes more than it imports.

    It may add parameters, conditions and outputs. `imported` are names of resources by the paths of their stacks.
    """
    before, files = tree.level(()).definition, after.template.files
    known = {name: text for name, text in before.template.files.items() if files.get(name, text) != text}
    places = [*environment(before, after)]
    for path, names in {(): (), **imported}.items():
        level = tree.level(path)
        document = after.template.document
        if path:
            known.pop(level.file, None)
            document = load_template(files[level.file], level.file).data
        places += [level.full(place) for place in _template(level.definition, document, names)]
    _refuse([*places, *(f"file {name}" for name in known)])


def require_defined(level: DefinedStack, after: Definition, names: Collection[str]) -> None:
    """Raise NotOnlyImport if the new definition of a stack lacks what it imports."""
    _refuse([level.full(f"resources.{name} is missing") for name in names if name not in after.resources])


def _refuse(places: Sequence[str]) -> None:
    if places:
        raise NotOnlyImport(places=abbreviated(places))


def _template(before: Definition, new: Mapping[str, Json], names: Collection[str]) -> Iterator[str]:
    resources, old = before.sections["resources"], before.template.document
    for section in dict.fromkeys((*old, *new)):
        one, other = old.get(section), new.get(section)
        if section == resources:
            kept = [{name: value for name, value in as_map(part).items() if name not in names} for part in (one, other)]
            yield from changed(section, *kept)
            yield from (f"{section}.{name}" for name in kept[1].keys() - kept[0].keys())
        elif isinstance(one, Mapping) or one is None and isinstance(other, Mapping):
            yield from changed(section, as_map(one), as_map(other))
        elif not same(one, other):
            yield section


def environment(before: Definition, after: Definition) -> Iterator[str]:
    """Yield what an environment changes or lacks."""
    old, new = before.environment.to_dict(), after.environment.to_dict()
    for section in old:
        one, other = old[section], new.get(section)
        if isinstance(one, Mapping):
            yield from changed(section, as_map(one), as_map(other))
        elif not same(one, other):
            yield section


def changed(section: str, before: Mapping[str, Json], after: Mapping[str, Json]) -> Iterator[str]:
    """Yield the entries that are changed or missing."""
    for name, value in before.items():
        if name not in after or not same(value, after[name]):
            yield f"{section}.{name}"
