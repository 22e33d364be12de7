"""Objects that an adoption may take over: none that another stack has.

A stack document says what an object is. It comes from a client, so whose the object is follows from the rows.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress

from msgspec import Struct

from heatlite.core.clouds import CloudIdentity
from heatlite.core.errors import EntityNotFound, ObjectTaken, ResourceTypeUnavailable
from heatlite.core.json import Json, JsonMap, as_map, as_text, dump
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.plugin.nested import StackResource
from heatlite.plugin.resource import ResourceType
from heatlite.plugin.signing import ACCESS_KEY_TYPE
from heatlite.store.records import HolderRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.document import Definition


class _Wanted(Struct, frozen=True):
    """An object that a document names."""

    name: str
    """Of the resource, or its path in the document."""
    kind: ResourceType
    physical_id: str
    physical_name: str | None

    def keys(self, cloud: CloudIdentity | None) -> Iterator[str]:
        """Yield the digests of object and name."""
        if self.physical_name is not None:
            yield _digest("name", self.physical_name)
        if not self.kind.shares_object:
            place = cloud if self.kind.cloud_service else None
            yield _digest(self.kind.object_kind, self.physical_id, *(() if place is None else place.account))


def _digest(*parts: str | None) -> str:
    return hashlib.sha256(dump([*parts]).encode()).hexdigest()


class AdoptedObjects:
    """The objects of one adoption, against those of all other live stacks."""

    def __init__(self, store: Store, resources: ResourceFactory) -> None:
        self._store = store
        self._resources = resources

    def check(self, cloud: CloudIdentity | None, definition: Definition, entries: JsonMap) -> None:
        """Raise ObjectTaken if another stack has one of the objects.

        Nested entries are checked by the type that the document says; `claim` checks them again.
        """
        wanted = [*_defined(self._resources, definition, entries), *_nested(self._resources, entries)]
        for text in self._taken(cloud, wanted).values():
            raise ObjectTaken(text)

    def claim(self, definition: Definition, entries: JsonMap) -> dict[str, str]:
        """Claim the objects of one stack of the tree until its adoption has ended.

        Returns the reasons for those that another stack has, by resource. Of two adoptions at once only one gets an
        object: the transaction claims under a lock.
        """
        stack, store = self._resources.stack, self._store
        root_id, cloud = self._resources.root_id, store.stacks.cloud_of(stack)
        wanted = [*_defined(self._resources, definition, entries)]
        with store.transaction():
            store.limit_locks.take("adopted objects")
            store.adoptions.forget_ended()
            taken = self._taken(cloud, wanted)
            keys = {one.name: {*one.keys(cloud)} for one in wanted if one.name not in taken}
            claimed = store.adoptions.claimed(set[str]().union(*keys.values()), root_id)
            for name in [name for name in keys if not keys[name].isdisjoint(claimed)]:
                taken[name] = f"resources.{name}: another adoption takes over the object."
                del keys[name]
            store.adoptions.claim(set[str]().union(*keys.values()), root_id)
        return taken

    def _taken(self, cloud: CloudIdentity | None, wanted: Collection[_Wanted]) -> dict[str, str]:
        """Return why objects cannot be adopted, by the resource's name."""
        stack, rows, found = self._resources.stack, self._store.resources, dict[str, str]()
        root_id = self._resources.root_id
        by_id, by_name = defaultdict[str, list[_Wanted]](list), defaultdict[str, list[_Wanted]](list)
        for one in wanted:
            by_id[one.physical_id].append(one)
            if one.physical_name is not None:
                by_name[one.physical_name].append(one)
            if one.kind.type_name == ACCESS_KEY_TYPE and self._store.access_keys.get(one.physical_id) is not None:
                found[one.name] = f"resources.{one.name}: {one.physical_id} is the access key of a user."
        for holder in rows.holders_elsewhere(root_id, "physical_id", [*by_id]):
            for one in by_id[str(holder.physical_id)]:
                if self._is_same(one, cloud, holder):
                    found[one.name] = _text(stack, one.name, one.physical_id, holder)
        for holder in rows.holders_elsewhere(root_id, "physical_name", [*by_name]):
            for one in by_name[holder.physical_name]:
                found.setdefault(one.name, _text(stack, one.name, holder.physical_name, holder))
        return found

    def _is_same(self, one: _Wanted, cloud: CloudIdentity | None, holder: HolderRecord) -> bool:
        """Test whether a row has the object, and not another one with the same id."""
        kind = self._resources.type_named(holder.mapped_type)
        if kind.shares_object or kind.object_kind != one.kind.object_kind:
            return False
        return not kind.cloud_service or cloud is None or holder.cloud is None or cloud.is_same(holder.cloud)


def _defined(resources: ResourceFactory, definition: Definition, entries: JsonMap) -> Iterator[_Wanted]:
    """Yield the objects of one stack, with the types of its definition."""
    for name, defined in definition.resources.items():
        if defined.external_id is None:
            yield from _wanted(name, resources.type_named(defined.mapped_type), as_map(entries.get(name)))


def _nested(resources: ResourceFactory, entries: Mapping[str, Json], path: str = "") -> Iterator[_Wanted]:
    """Yield the objects of nested stacks, with the types of the document."""
    for name, entry in entries.items():
        within = as_map(as_map(entry).get("resources"))
        for member, inner in within.items():
            kind = as_text(as_map(inner).get("mapped_type")) or as_text(as_map(inner).get("type"))
            with suppress(EntityNotFound, ResourceTypeUnavailable):
                yield from _wanted(f"{path}{name}.resources.{member}", resources.types.get(kind or ""), as_map(inner))
        yield from _nested(resources, within, f"{path}{name}.resources.")


def _wanted(name: str, kind: ResourceType, entry: JsonMap) -> Iterator[_Wanted]:
    physical_id = as_text(entry.get("resource_id"))
    # A nested stack gets a new id, and a new name if its own is in use.
    if physical_id and not issubclass(kind, StackResource):
        yield _Wanted(name, kind, physical_id, as_text(entry.get("physical_name")) or None)


def _text(stack: StackRecord, name: str, identifier: str, holder: HolderRecord) -> str:
    if holder.project != stack.project:
        return f"resources.{name}: {identifier} belongs to a stack of another project."
    return (
        f"resources.{name}: {identifier} belongs to resource {holder.name} of stack {holder.stack_name}. Abandon or"
        " delete that first."
    )
