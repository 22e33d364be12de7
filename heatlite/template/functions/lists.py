"""Functions of HOT over lists and maps."""

import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import ClassVar, TypeVar

from heatlite.core.json import parse
from heatlite.template.expression import UNKNOWN, Function, FunctionCall, deferred, fields, select, weight
from heatlite.template.functions.arguments import MAX_ITEMS, MAX_TEXT, Fields, Items, brief, sequence, wrong

Kind = TypeVar("Kind")


class Repeat(Function):
    summary = "A template filled in once for every combination of the items of lists."
    takes = Fields(("for_each", "template"), '{"template": anything, "for_each": {variable: list}}')
    maps: ClassVar[bool] = False
    permutes: ClassVar[bool] = False
    strict = False
    __slots__ = ()

    def __init__(self, call: FunctionCall, arguments: object) -> None:
        super().__init__(call, arguments)
        given = fields(arguments)
        assert given
        for_each = fields(given["for_each"])
        if for_each is None and not deferred(given["for_each"]):
            raise call.fault(f'The "for_each" argument to "{call.name}" must contain a map')
        permutations = given.get("permutations", True)
        if self.permutes and not isinstance(permutations, bool) and not deferred(permutations):
            raise call.fault(f'"permutations" should be boolean type for {call.name} function')

    def apply(self, arguments: object) -> object:
        if not isinstance(arguments, Mapping):
            return UNKNOWN
        for_each = arguments["for_each"]
        permutations = arguments.get("permutations", True) if self.permutes else True
        if for_each is UNKNOWN or permutations is UNKNOWN:
            return UNKNOWN
        if not isinstance(for_each, Mapping):
            raise wrong(f'The "for_each" argument to "{self.name}" must contain a map')
        if not for_each:
            raise wrong(f'The "for_each" argument to "{self.name}" must not be empty')
        if not isinstance(permutations, bool):
            raise wrong(f'"permutations" should be boolean type for {self.name} function')
        if any(items is UNKNOWN for items in for_each.values()):
            return UNKNOWN
        if not permutations and None in for_each.values():
            return []
        lists = [self.items(items, permutations) for items in for_each.values()]
        count = math.prod(map(len, lists)) if permutations else max(map(len, lists), default=0)
        if count > MAX_ITEMS:
            raise wrong(f'"{self.name}" makes more than {MAX_ITEMS} items')
        # Filling in is some twice as much as looking through.
        self.bindings.charge(2 * count * (1 + len(lists)) * weight(arguments["template"]))
        if permutations:
            rows: Iterable[tuple[object, ...]] = itertools.product(*lists)
        else:
            if len({len(items) for items in lists}) > 1:
                raise wrong(
                    f"For {self.name} function, the length of for_each values should be equal if no permutations."
                )
            rows = zip(*lists, strict=True)
        names = list(for_each)
        template = arguments["template"]
        return [self.fill(template, list(zip(names, row, strict=True))) for row in rows]

    def items(self, value: object, permutations: bool) -> Sequence[object]:
        if value is None:
            return []
        if isinstance(value, list):
            return value
        if isinstance(value, Mapping) and self.maps and permutations:
            return list(value)
        kind = "lists or maps" if self.maps and permutations else "lists"
        raise wrong(f'The values of the "for_each" argument to "{self.name}" must be {kind}')

    def fill(self, template: object, values: list[tuple[str, object]]) -> object:
        if isinstance(template, str):
            return self.fill_text(template, values)
        if isinstance(template, list):
            return [self.fill(item, values) for item in template]
        if isinstance(template, Mapping):
            filled: dict[object, object] = {}
            for key, item in template.items():
                name = self.fill(key, values)
                if name is UNKNOWN:
                    return UNKNOWN
                filled[name] = self.fill(item, values)
            return filled
        return template

    def fill_text(self, text: str, values: list[tuple[str, object]]) -> object:
        for name, value in values:
            if name not in text:
                continue
            if value is UNKNOWN:
                return UNKNOWN
            if not isinstance(value, str):
                raise wrong(f'"{self.name}" can put only strings into text, {name} is {brief(value)}')
            if len(text) + text.count(name) * (len(value) - len(name)) > MAX_TEXT:
                raise wrong(f'"{self.name}" makes a text of more than {MAX_TEXT} characters')
            text = text.replace(name, value)
            if len(text) > 127:
                self.bindings.charge(len(text) >> 7)
        return text


class RepeatMaps(Repeat):
    summary = "A template filled in once for every combination of the items of lists or of the keys of maps."
    maps = True
    __slots__ = ()


class RepeatPermutations(RepeatMaps):
    summary = "As the earlier repeat; with permutations false it takes the first items of all lists, the second ones …"
    permutes = True
    __slots__ = ()


def _present(function: Function, arguments: object, kind: type[Kind], name: str) -> list[Kind] | None:
    """Return the arguments of a kind without null, None if one is unknown.

    Raises StackValidationFailed.
    """
    if arguments is UNKNOWN:
        return None
    if not isinstance(arguments, list):
        raise wrong(f'Incorrect arguments to "{function.name}": a list of {name} is needed')
    if any(item is UNKNOWN for item in arguments):
        return None
    for item in arguments:
        if item is not None and not isinstance(item, kind):
            raise wrong(f'Incorrect arguments to "{function.name}": Items must be {name}, not {brief(item)}')
    return [item for item in arguments if item is not None]


class MapMerge(Function):
    summary = "Several maps as one; the later ones win."
    late = True
    strict = False
    takes = Items('Incorrect arguments to "%s" should be: [ {"key1": "val1"}, ... ]', may_be_call=True)
    __slots__ = ()

    def apply(self, arguments: object) -> object:
        if arguments == "":  # get_param with a path that leads nowhere
            return {}
        maps = _present(self, arguments, Mapping, "maps")  # type: ignore[type-abstract]
        if maps is None:
            return UNKNOWN
        merged: dict[object, object] = {}
        for item in maps:
            self.bindings.charge(len(item))
            merged.update(item)
        return merged


class MapReplace(Function):
    summary = "A map with keys renamed and values replaced."
    takes = Items(
        'Incorrect arguments to "%s" should be:'
        ' [ {"key1": "val1"}, {"keys": {"key1": "key2"}, "values": {"val1": "val2"}} ]',
        2,
        2,
    )
    __slots__ = ()

    def apply(self, arguments: object) -> object:
        given, changes = ({} if item is None else item for item in sequence(arguments))
        if not isinstance(given, Mapping) or not isinstance(changes, Mapping):
            raise wrong(f'Incorrect arguments to "{self.name}": two maps are needed')
        for key in changes:
            if key not in ("keys", "values"):
                raise wrong(f'Incorrect arguments to "{self.name}": {brief(key)} is neither "keys" nor "values"')
        keys, values = changes.get("keys") or {}, changes.get("values") or {}
        if not isinstance(keys, Mapping) or not isinstance(values, Mapping):
            raise wrong(f'Incorrect arguments to "{self.name}": "keys" and "values" must be maps')
        replaced: dict[object, object] = {}
        for key, value in given.items():
            new_key = key if keys.get(key) is None else keys[key]
            if not isinstance(new_key, str):
                raise wrong(f'"{self.name}" cannot make {brief(new_key)} a key')
            if new_key in replaced or (new_key != key and new_key in given):
                raise wrong(f'"{self.name}": key replacement {new_key} collides with a key in the output map')
            hashable = not isinstance(value, (list, Mapping))
            replaced[new_key] = values.get(value, value) if hashable else value
        return replaced


class Filter(Function):
    summary = "A list without the items that equal one of some values."
    takes = Items('Argument to "%s" must be a list of two: [ values, list ]', 2, 2)
    __slots__ = ()

    def apply(self, arguments: object) -> object:
        values, items = sequence(arguments)
        if not items:
            return items
        values = values or []
        if not isinstance(values, list) or not isinstance(items, list):
            raise wrong(f'"{self.name}" needs two lists')
        unwanted = set(map(_mark, values))
        return [item for item in items if _mark(item) not in unwanted]


def _mark(value: object) -> Hashable:
    """Equal for equal values only.

    1 and 1.0 and true are equal to each other in Python, as they are for Heat.
    """
    if isinstance(value, Mapping):
        return "map", frozenset((key, _mark(item)) for key, item in value.items())
    if isinstance(value, list):
        return "list", tuple(map(_mark, value))
    assert isinstance(value, Hashable)
    return value


class ListConcat(Function):
    summary = "Several lists as one."
    strict = False
    takes = Items('Incorrect arguments to "%s" should be: [ [ "value 1" ], [ "value 2" ], ... ]', may_be_call=True)
    __slots__ = ()

    def apply(self, arguments: object) -> object:
        lists = _present(self, arguments, list, "lists")
        if lists is None:
            return UNKNOWN
        joined: list[object] = []
        for item in lists:
            joined += item
            self.bindings.charge(len(item))
            if len(joined) > MAX_ITEMS:
                raise wrong(f'"{self.name}" makes more than {MAX_ITEMS} items')
        return self.finish(joined)

    def finish(self, joined: list[object]) -> object:
        return joined


class ListConcatUnique(ListConcat):
    summary = "Several lists as one, equal items once."
    strict = True
    __slots__ = ()

    def finish(self, joined: list[object]) -> object:
        seen: set[Hashable] = set()
        unique = []
        for item in joined:
            mark = _mark(item)
            if mark not in seen:
                seen.add(mark)
                unique.append(item)
        return unique


class Contains(Function):
    summary = "True if a list contains a value, or a text another text."
    takes = Items('Arguments to "%s" must be of the form: [value1, [value1, value2]]', 2, 2)
    __slots__ = ()

    def apply(self, arguments: object) -> object:
        value, within = sequence(arguments)
        if isinstance(within, str) and isinstance(value, str):
            return value in within
        if not isinstance(within, list):
            raise wrong(f'Second argument to "{self.name}" should be a sequence.')
        return value in within


class Select(Function):
    summary = "One item of a list or a map."
    takes = Items('Arguments to "%s" must be of the form [index, collection]', 2, 2)
    __slots__ = ()

    def apply(self, arguments: object) -> object:
        index, within = sequence(arguments)
        if within == "":  # get_param gives it for a missing part of a parameter
            return ""
        if isinstance(within, str):
            try:
                within = parse(within)
            except (ValueError, RecursionError):
                raise wrong(f'"{self.name}" got a text that is not JSON') from None
        if within is None:
            return ""
        if not isinstance(within, (list, Mapping)):
            raise wrong(f'Arguments to "{self.name}" not fully resolved: a list or a map is needed')
        if isinstance(within, Mapping):
            if not isinstance(index, str):
                raise wrong(f'Index to "{self.name}" must be a string')
        elif isinstance(index, (int, float, str)):
            try:
                index = int(index)
            except (ValueError, OverflowError):
                raise wrong(f'Index to "{self.name}" must be an integer') from None
        else:
            raise wrong(f'Index to "{self.name}" must be an integer')
        return select(within, [index], "")
