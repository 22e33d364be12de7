"""Compare stored properties with those of an object, part by part.

A property differs if an update with `converge` would change it (`Schema.diff`). What differs in it is found here.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from heatlite.core.differences import MAX_DIFFERENCES, MAX_VALUE, Difference, Differences
from heatlite.core.json import Json, JsonMap, as_map, dump, pointer, same, steps
from heatlite.core.redaction.masking import MASK, hiding, masked_json
from heatlite.plugin.schema import Field, Schema
from heatlite.template.ignored import Ignored

FURTHER = "-"
"""Last part of the path of an item that only the object's list has."""

Side: TypeAlias = Json | UnsetType


HiddenPart: TypeAlias = Callable[[tuple[str, ...]], tuple[str, ...] | None]
"""Returns the path of the hidden part of the properties at a path; None: it is not hidden."""


class DifferentPart(Struct, frozen=True):
    """A part of a property that differs."""

    path: tuple[str, ...]
    """Property, then keys and positions within it."""
    stored: Side
    live: Side
    hidden: bool = False
    """True if one of the sides has a hidden value in it."""
    ignored: bool = False
    is_item: bool = False
    """True for an item of a list."""


def compare(
    schema: type[Schema], stored: Mapping[str, Json], live: Mapping[str, Json], ignored: Ignored
) -> list[DifferentPart]:
    """Return the parts of the properties that differ, by property.

    Both sides are coerced. Values that this thread's work masks are marked as hidden.
    """
    found: list[DifferentPart] = []
    for name in sorted(schema.diff(stored, live)):
        field = schema.fields[name]
        sides = field.given(stored), field.given(live)
        parts = [*_parts(field, (name,), _Sides.of(field, *sides))]
        if ignored:
            with hiding(None):  # a mask makes parts larger than what is ignored
                bare = dict.fromkeys(one.path for one in _parts(field, (name,), _Sides.of(field, *sides)))
            parts = [replace(one, ignored=_is_ignored(one.path, bare, ignored)) for one in parts]
        found += parts
    return found


def _is_ignored(path: tuple[str, ...], bare: Collection[tuple[str, ...]], ignored: Ignored) -> bool:
    """Return whether all differences at a path are ignored, by paths without a mask."""
    within = [] if path in bare else [one for one in bare if one[: len(path)] == path]
    return all(map(ignored.has, within or [path]))


def ignored_parts(schema: type[Schema], stored: JsonMap, live: JsonMap, ignored: Ignored) -> list[DifferentPart]:
    """Return the ignored parts of the properties that differ, without a mask.

    Nothing of them may be shown.
    """
    if not ignored:
        return []
    with hiding(None):  # a mask would make parts larger than what is ignored
        return [part for part in compare(schema, stored, live, ignored) if part.ignored]


def with_stored(stored: JsonMap, live: JsonMap, parts: Sequence[DifferentPart]) -> JsonMap:
    """Return live properties with the stored values of these parts."""
    return _moved(live, [(part, part.live, part.stored) for part in parts], stored)


def with_live(stored: JsonMap, live: JsonMap, parts: Sequence[DifferentPart], wanted: JsonMap) -> JsonMap:
    """Return wanted properties with the live values of these parts.

    Parts that are wanted anew keep the wanted values.
    """
    kept = [one for one in parts if one.is_item or same(_at(stored, one.path), _at(wanted, one.path))]
    return _moved(wanted, [(part, part.stored, part.live) for part in kept], live)


Move: TypeAlias = tuple[DifferentPart, Side, Side]
"""A part, the value that it has, and the value that it gets."""


def _moved(properties: JsonMap, moves: Sequence[Move], goal: JsonMap) -> JsonMap:
    """Return properties with other values in some parts, as `goal` has them."""
    found: Json = properties
    items: dict[tuple[str, ...], list[Move]] = {}
    for part, old, new in moves:
        if part.is_item:
            items.setdefault(part.path[:-1], []).append((part, old, new))
        else:
            found = _with(found, part.path, None if isinstance(new, UnsetType) else new)
    for path, some in items.items():
        found = _with(found, path, _items_moved(_list(_at(found, path)), some, _list(_at(goal, path))))
    return as_map(found)


def _at(value: Json, path: Sequence[str]) -> Json:
    """Return the value at a path of keys; None: there is none."""
    for step in path:
        value = _map(value).get(step)
    return value


def _with(value: Json, path: Sequence[str], new: Json) -> Json:
    """Return a value with another one at a path of keys.

    Null stands for an absent one.
    """
    if not path:
        return new
    step, *rest = path
    after = {**_map(value)}
    inner = _with(after.get(step), rest, new)
    if inner is None:
        after.pop(step, None)
    else:
        after[step] = inner
    return after


def _items_moved(value: list[Json], moves: Sequence[Move], goal: list[Json]) -> list[Json]:
    """Return a list with other items, in the order of `goal` if it has the same ones."""
    waiting: dict[Hashable, list[Side]] = {}
    found, further = list[Json](), list[Json]()
    for _, old, new in moves:
        if not isinstance(old, UnsetType):
            waiting.setdefault(_key(old), []).append(new)
        elif not isinstance(new, UnsetType):
            further.append(new)
    for item in value:
        sides = waiting.get(_key(item))
        side = sides.pop() if sides else item
        if not isinstance(side, UnsetType):
            found.append(side)
    found += further
    return goal if Counter(map(_key, found)) == Counter(map(_key, goal)) else found


def shown(parts: Sequence[DifferentPart]) -> Differences:
    """Return parts as a check tells them: masked, and within the limits."""
    cut = len(parts) > MAX_DIFFERENCES
    found = []
    # What is ignored must not push out what is not.
    for part in sorted(parts, key=lambda one: one.ignored)[:MAX_DIFFERENCES]:
        (stored, long), (live, longer) = _shortened(part, part.stored), _shortened(part, part.live)
        cut = cut or long or longer
        found.append(Difference(masked_pointer(part), stored, live, part.ignored))
    return Differences(tuple(found), cut)


def judged(known: Differences, ignored: Ignored) -> Differences:
    """Return known differences as a definition judges them that ignores these parts.

    Of a difference larger than an ignored part only a check can tell. It stays as it was.
    """

    def is_ignored(one: Difference) -> bool:
        path = steps(one.path)
        path = path[: path.index(MASK)] if MASK in path else path
        return ignored.has(path) or one.ignored and ignored.has_within(path)

    return replace(known, found=tuple(replace(one, ignored=is_ignored(one)) for one in known.found))


def with_hidden(parts: Sequence[DifferentPart], hidden: HiddenPart | None) -> Sequence[DifferentPart]:
    """Return parts with those marked as hidden that depend on hidden values."""
    if hidden is None:
        return parts
    found: dict[tuple[tuple[str, ...], int], DifferentPart] = {}
    for at, part in enumerate(parts):
        path = hidden(part.path)
        if path is None:
            found[part.path, at] = part
        elif part.is_item and path == part.path[:-1]:
            found[part.path, at] = replace(part, hidden=True)
        else:  # Keys below it would tell of what is hidden.
            known = found.get((path, -1))
            is_ignored = part.ignored and (known is None or known.ignored)
            found[path, -1] = replace(part, path=path, hidden=True, ignored=is_ignored)
    return [*found.values()]


def masked_pointer(part: DifferentPart) -> str:
    """Return the JSON Pointer of a part. A key may have a secret in it."""
    return pointer([str(masked_json(step)) for step in part.path])


def _shortened(part: DifferentPart, value: Side) -> tuple[Side, bool]:
    """Return a value as it is kept, and whether it is cut."""
    if isinstance(value, UnsetType):
        return value, False
    if part.hidden:
        return MASK, False
    text = dump(value).encode()
    if len(text) <= MAX_VALUE:
        return value, False
    kept = (value.encode() if isinstance(value, str) else text)[:MAX_VALUE]
    return kept.decode(errors="ignore") + "…", True


class _Sides(Struct, frozen=True):
    """Two values, and each of them as it may be shown."""

    stored: Json
    live: Json
    stored_shown: Json
    live_shown: Json

    @classmethod
    def of(cls, field: Field, stored: object, live: object) -> "_Sides":
        before, after = _json(stored), _json(live)
        return cls(before, after, masked_json(field.masked(before)), masked_json(field.masked(after)))

    def each(self, part_of: "Callable[[Json], Json]") -> "_Sides":
        """Return a part of all four."""
        return _Sides(*(part_of(one) for one in (self.stored, self.live, self.stored_shown, self.live_shown)))

    @property
    def hidden(self) -> bool:
        """True if a value has something in it that may not be shown."""
        return not (same(self.stored, self.stored_shown) and same(self.live, self.live_shown))

    @property
    def has_same_shape(self) -> bool:
        """True if no map or list of the two is hidden as a whole."""
        return _shape(self.stored) == _shape(self.stored_shown) and _shape(self.live) == _shape(self.live_shown)


def _json(value: object) -> Json:
    return value  # type: ignore[return-value]  # a coerced value


def _shape(value: Json) -> object:
    if isinstance(value, Mapping):
        return value.keys()
    return len(value) if isinstance(value, list | tuple) else None


def _parts(field: Field | None, path: tuple[str, ...], sides: _Sides) -> Iterator[DifferentPart]:
    """Yield the parts of a value that differ."""
    stored, live = sides.stored, sides.live
    parts: list[DifferentPart] = []
    if not sides.has_same_shape:
        pass  # keys or numbers would tell of what is hidden
    elif isinstance(stored, Mapping) and isinstance(live, Mapping):
        parts = [*_of_maps(field, path, sides)]
    elif isinstance(stored, list) and isinstance(live, list):
        parts = [*_of_lists(field, path, sides)]
    if parts:
        yield from parts
    else:
        yield _whole(path, sides)


def _whole(path: tuple[str, ...], sides: _Sides) -> DifferentPart:
    stored = UNSET if sides.stored is None else sides.stored
    live = UNSET if sides.live is None else sides.live
    return DifferentPart(path, stored, live, sides.hidden)


def _of_maps(field: Field | None, path: tuple[str, ...], sides: _Sides) -> Iterator[DifferentPart]:
    schema = None if field is None else field.schema
    for key in {**_map(sides.stored), **_map(sides.live)}:
        within = None if schema is None else schema.fields.get(key)
        if within is None:
            inner = sides.each(lambda value, key=key: _map(value).get(key))  # type: ignore[misc]
            differs = not same(inner.stored, inner.live)
        else:
            given = within
            inner = sides.each(lambda value, given=given: _json(given.given(_map(value))))  # type: ignore[misc]
            differs = within.differs(_map(sides.stored), _map(sides.live))
        if differs:
            yield from _parts(within, (*path, key), inner)


def _of_lists(field: Field | None, path: tuple[str, ...], sides: _Sides) -> Iterator[DifferentPart]:
    """Yield what one of two lists lacks. The order does not count.

    One item in place of one other is a changed one.
    """
    item = None if field is None else field.item
    stored, live = _list(sides.stored), _list(sides.live)
    places: dict[Hashable, deque[int]] = {}
    for at, one in enumerate(live):
        places.setdefault(_item_key(item, one), deque()).append(at)
    left = dict.fromkeys(range(len(live)))
    missing = []
    for at, one in enumerate(stored):
        found = places.get(_item_key(item, one))
        if found:
            del left[found.popleft()]
        else:
            missing.append(at)
    before, after = _list(sides.stored_shown), _list(sides.live_shown)
    if len(missing) == len(left) == 1:
        at, other = missing[0], next(iter(left))
        pair = _Sides(stored[at], live[other], before[at], after[other])
        yield replace(_whole((*path, str(at)), pair), is_item=True)
        return
    for at in missing:
        yield DifferentPart((*path, str(at)), stored[at], UNSET, not same(stored[at], before[at]), is_item=True)
    # What takes the place of a hidden item is not known to be one.
    is_hidden = not same(sides.stored, sides.stored_shown)
    for other in left:
        hides = is_hidden or not same(live[other], after[other])
        yield DifferentPart((*path, FURTHER), UNSET, live[other], hides, is_item=True)


def _item_key(item: Field | None, value: Json) -> Hashable:
    """Return a key that equal items have in common, with defaults on both sides."""
    return _key(value if item is None else item.complete(value))


def _key(value: object) -> Hashable:
    """Return a key that two values have in common if they are `same`."""
    if isinstance(value, Mapping):
        return dict, frozenset((name, _key(one)) for name, one in value.items())
    if isinstance(value, list):
        return list, tuple(map(_key, value))
    return isinstance(value, bool), value


def _map(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
