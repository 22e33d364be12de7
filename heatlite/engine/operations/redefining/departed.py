"""Resources of snapshots that have other places since."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.errors import SnapshotOutdated, abbreviated
from heatlite.core.json import JsonMap, as_map, as_text
from heatlite.engine.state.requests import Adopted
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.definitions.renames import renamed
from heatlite.template.document import Definition, Template
from heatlite.template.expression import requires


class Restorable(Struct, frozen=True):
    """A stack document without what the stack does not own any more."""

    record: Adopted
    left_out: Mapping[str, str]
    """Places of what is left out, by its name in the snapshot."""


def restorable(
    store: Store, stack: StackRecord, snapshot: str, record: Adopted, define: Callable[[], Definition]
) -> Restorable:
    """Return the document of a snapshot as the stack can be restored to it.

    Resources that have other names since get these. What has moved to another stack is left out, with outputs that
    read it. `define` returns the definition that the document has. Raises SnapshotOutdated for what has left a nested
    stack, and for what others read.
    """
    found = _Departed(store, stack, record, define)
    names, gone = found.renamed, found.gone
    if not names and not gone and not found.nested:
        return Restorable(record, {})
    faults = [*found.nested, *found.readers()]
    faults += [name for name in names.values() if name in record.resources and name not in {*names, *gone}]
    if faults:
        raise SnapshotOutdated(snapshot=snapshot, stack_name=stack.name, names=abbreviated(faults))
    return Restorable(found.document(), gone)


class _Level(Struct, frozen=True):
    """A stack of a snapshot."""

    path: str
    """Of its resources: ``web/``; empty for the root."""
    stack_id: str
    entries: JsonMap
    missing: Mapping[str, str]
    """Objects that the stack does not have under their names, by these."""


class _Departed:
    """The parts of a snapshot that are elsewhere now. An object tells where it is."""

    def __init__(
        self, store: Store, stack: StackRecord, record: Adopted, define: Callable[[], Definition]
    ) -> None:
        self._define = define
        self._store = store
        self._stack = stack
        self._record = record
        root, *self._below = self._levels(record.resources, stack.id)
        self._owners = self._owners_of([key for one in (root, *self._below) for key in one.missing.values()])
        self.renamed, self.gone = dict[str, str](), dict[str, str]()
        for name in root.missing:
            owner = self._owner(root, name)
            if owner is not None and owner.stack_id == stack.id:
                self.renamed[name] = owner.name
            elif owner is not None:
                self.gone[name] = self._place(owner)

    def _levels(self, entries: JsonMap, stack_id: str, path: str = "") -> Iterator[_Level]:
        here = {row.name: row.physical_id for row in self._store.resources.of(stack_id)}
        yield _Level(path, stack_id, entries, {name: key for name, key in _objects(entries) if here.get(name) != key})
        for name, entry in entries.items():
            below, nested = as_map(as_map(entry).get("resources")), as_text(as_map(entry).get("resource_id"))
            if below and nested is not None:
                yield from self._levels(below, nested, f"{path}{name}/")

    def _owner(self, level: _Level, name: str) -> ResourceRecord | None:
        """Return the row that has a missing object now."""
        return self._owners.get((level.missing[name], as_text(as_map(level.entries[name]).get("type"))))

    def _owners_of(self, ids: list[str]) -> dict[tuple[str | None, str | None], ResourceRecord]:
        """Return the rows with objects, by id and type."""
        rows = self._store.resources.with_objects(self._stack.project, ids) if ids else []
        return {(row.physical_id, row.type): row for row in rows if row.external_id is None}

    def _place(self, owner: ResourceRecord) -> str:
        """Return the path of a row, with the stack if that is another root."""
        stack = self._store.stacks.get(owner.stack_id)
        assert stack is not None
        root, names = self._store.stacks.place(stack)
        path = "/".join((*names, owner.name))
        return path if root.id == self._stack.id else f"{path} of stack {root.name}"

    @cached_property
    def nested(self) -> list[str]:
        """Names of what has left a nested stack, with its new place."""
        owners = ((level, name, self._owner(level, name)) for level in self._below for name in level.missing)
        return [
            f"{level.path}{name} (now {self._place(owner)})"
            for level, name, owner in owners
            if owner is not None and owner.stack_id != level.stack_id
        ]

    def readers(self) -> Iterator[str]:
        """Yield resources of the snapshot that read what is left out."""
        for name, one in self._define().resources.items() if self.gone else ():
            if name not in self.gone and not one.requires.isdisjoint(self.gone):
                yield f"{name} (reads what has moved)"

    def document(self) -> Adopted:
        """Return the document without what is left out, with new names."""
        written, gone = Template(self._record.template, self._record.files), self.gone
        sections, template = written.dialect.sections, {**written.document}
        template[sections["resources"]] = {name: one for name, one in written.resources.items() if name not in gone}
        if gone and written.outputs:
            outputs = self._define().outputs.items()
            reading = {name for name, one in outputs if not {*requires(one.value)}.isdisjoint(gone)}
            template[sections["outputs"]] = {k: one for k, one in written.outputs.items() if k not in reading}
        template = renamed(Template(template, written.files), self.renamed)
        resources: JsonMap = {
            self.renamed.get(name, name): {**as_map(entry), "name": self.renamed.get(name, name)}
            for name, entry in self._record.resources.items()
            if name not in self.gone
        }
        return replace(self._record, template=template, resources=resources, environment=self._environment())

    def _environment(self) -> JsonMap:
        registry = as_map(self._record.environment.get("resource_registry"))
        blocks = as_map(registry.get("resources"))
        if {*self.renamed, *self.gone}.isdisjoint(blocks):
            return self._record.environment
        kept = {self.renamed.get(name, name): one for name, one in blocks.items() if name not in self.gone}
        return {**self._record.environment, "resource_registry": {**registry, "resources": kept}}


def _objects(entries: JsonMap) -> Iterator[tuple[str, str]]:
    """Yield names and objects of the resources of a document."""
    for name, entry in entries.items():
        key = as_text(as_map(entry).get("resource_id"))
        if key is not None:
            yield name, key
