"""Objects that an adoption may take over: none that another stack has.

A stack document says what an object is. It comes from a client, so whose the object is follows from the rows.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from heatlite.core.clock import to_text
from heatlite.core.clouds import CloudIdentity
from heatlite.core.errors import EntityNotFound, ObjectNotReady, ObjectOwned, ResourceTypeUnavailable
from heatlite.core.json import Json, JsonMap, as_map, as_text, dump
from heatlite.core.wire.why import Holder, WayOut, words
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.plugin.groups import SizedGroup
from heatlite.plugin.nested import StackResource
from heatlite.plugin.resource import ResourceType
from heatlite.plugin.signing import ACCESS_KEY_TYPE
from heatlite.store.records import HolderRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.document import Definition


class LiveObject(Struct, frozen=True):
    """An object in a cloud that is to have a row."""

    kind: ResourceType
    physical_id: str
    name: str | None
    """Its own name, if it has one."""


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
        """Raise ObjectOwned if another stack has one of the objects.

        Nested entries are checked by the type that the document says; `claim` checks them again.
        """
        wanted = [*_defined(self._resources, definition, entries), *_nested(self._resources, entries)]
        for text in self._taken(cloud, wanted).values():
            raise ObjectOwned(text)

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

    def require_unowned(self, objects: Mapping[str, LiveObject]) -> None:
        """Raise ObjectOwned if a resource of any stack has one of the objects.

        They have the names of the new resources. Call it in the transaction that writes their rows: of two at once only
        one gets an object. Raises ObjectNotReady if one may be what a stack is creating, whose row has no id yet.
        """
        store, cloud = self._store, self._store.stacks.cloud_of(self._resources.stack)
        own = {name: one for name, one in objects.items() if not one.kind.shares_object}
        wanted = [_Wanted(name, one.kind, one.physical_id, None) for name, one in own.items()]
        with store.transaction():
            store.limit_locks.take("adopted objects")
            store.adoptions.forget_ended()
            keys = {key: one for one in wanted for key in one.keys(cloud)}
            for key in sorted(store.adoptions.claimed(keys, "")):
                raise ObjectOwned(f"resources.{keys[key].name}: an adoption takes over {keys[key].physical_id}.")
            by_id = defaultdict[str, list[_Wanted]](list)  # ids of some kinds are names
            for one in wanted:
                by_id[one.physical_id].append(one)
            for holder in store.resources.holders_elsewhere("", "physical_id", [*by_id]):
                for one in by_id[str(holder.physical_id)]:
                    if self._is_same(one, cloud, holder):
                        raise self._owned(one, holder)
            for maker, names in store.resources.in_the_making():
                for one in wanted:
                    if self._is_same(one, cloud, maker) and own[one.name].name in {None, *names}:
                        raise ObjectNotReady(self._made(one, maker))

    def _made(self, one: _Wanted, maker: HolderRecord) -> str:
        """Return the text about an object that a stack may be creating."""
        is_foreign = maker.project != self._resources.stack.project
        whose = "A stack of another project" if is_foreign else f"Resource {maker.name} of stack {maker.stack_name}"
        text = f"resources.{one.name}: {whose} is being created, and {one.physical_id} may be its object."
        return f"{text} Try again when that has ended."

    def _owned(self, one: _Wanted, holder: HolderRecord) -> ObjectOwned:
        """Return the error about an object with an owner, without one of another project."""
        text = f"resources.{one.name}: {one.physical_id} is owned"
        stack = self._resources.stack
        if holder.project != stack.project:
            return ObjectOwned(f"{text} by a stack of another project.")
        for row in self._store.resources.with_objects(stack.project, [one.physical_id]):
            owner = self._store.stacks.get(row.stack_id)
            if row.name == holder.name and owner is not None:
                _, names = self._store.stacks.place(owner)
                here = "" if holder.stack_name == stack.name else f"{stack.name}:"
                to = None if stack.root_id is not None else here + one.name  # what joins a group does not move there
                return self._owned_by(row, owner, names, holder.stack_name, text, to)
        return ObjectOwned(f"{text} by stack {holder.stack_name}.")

    def _owned_by(
        self, row: ResourceRecord, owner: StackRecord, above: Sequence[str], root: str, text: str, to: str | None
    ) -> ObjectOwned:
        """Return the error that names the resource with an object.

        `above` are the names on the way to it; `to` is the place that a move would give it.
        """
        path, group = "/".join([*above, row.name]), "/".join(above)
        held = Holder(kind="resource", id=row.id, since=to_text(row.created_at))
        text = f"{text} by {path} of stack {root}."
        parents = self._store.resources.by_name(owner.parent_id or "", [owner.parent_resource or ""])
        if not any(issubclass(self._resources.type_named(one.mapped_type), SizedGroup) for one in parents):
            return ObjectOwned(text, holder=held, stack_name=root, path=path, to=to)
        leave = WayOut(text="lets it leave its group", command=f"heatlite group leave {root} {words(group, row.name)}")
        return ObjectOwned(text, holder=held, way_out=[leave])

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
