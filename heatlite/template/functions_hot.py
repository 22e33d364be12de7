"""The functions of HOT, one class each (hot-language §5). Which version knows which: dialects.py."""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import ClassVar, Final
from urllib import parse as urls

from heatlite.core.errors import InvalidTemplateReference, StackValidationFailed, UserParameterMissing
from heatlite.template.expression import (
    OMIT,
    UNKNOWN,
    Call,
    Function,
    NoResources,
    Scope,
    deferred,
    entries,
    fields,
    has_unknown,
    raise_together,
    resolve,
    select,
    weight,
)

MAX_TEXT: Final = 8 * 1024 * 1024
"""Characters that one function may produce; nested calls multiply, so there has to be an end."""
MAX_ITEMS: Final = 100_000
"""Items that one function may produce."""


def wrong(text: str) -> StackValidationFailed:
    return StackValidationFailed(text)


def _as_json(value: object) -> str:
    return json.dumps(value, sort_keys=True)


# -- parameters, resources, files ------------------------------------------------------------------


class GetParam(Function):
    summary = "The value of a parameter, or of what a path leads to within it."
    strict = False
    __slots__ = ()

    def __init__(self, call: Call, arguments: object) -> None:
        super().__init__(call, arguments)
        given = entries(arguments)
        if (given is not None and not given) or (given is None and arguments in (None, "", {})):
            raise call.fault(f'Function "{call.name}" must have arguments')
        if given is None and not isinstance(arguments, str) and not deferred(arguments):
            raise call.fault(f'Argument to "{call.name}" must be string or list')

    def apply(self, arguments: object) -> object:
        name, *path = [arguments] if arguments is UNKNOWN or isinstance(arguments, str) else sequence(arguments)
        if name is UNKNOWN:
            return UNKNOWN
        if not isinstance(name, str):
            raise wrong(f'Parameter name in "{self.name}" must be string')
        if name not in self.bindings.parameters:
            raise UserParameterMissing(key=name)
        value = select(self.bindings.parameters[name], path, "")
        self.bindings.charge(weight(value))
        return value


def sequence(value: object) -> Sequence[object]:
    if not isinstance(value, list) or not value:
        raise wrong("Arguments must be a string or a list with items")
    return value


def _early_name(call: Call, value: object, what: str) -> str:
    """A resource's name, which has to be known before any resource is."""
    try:
        name = resolve(value, NoResources())
    except (StackValidationFailed, InvalidTemplateReference, UserParameterMissing) as error:
        raise call.fault(error.message) from error
    if name is UNKNOWN:
        return ""
    if not isinstance(name, str) or not name:
        raise call.fault(f'{what} "{call.name}" must be a resource name')
    return name


class GetResource(Function):
    summary = "The reference of a resource: its physical id for most types."
    __slots__ = ("resource",)

    def __init__(self, call: Call, arguments: object) -> None:
        super().__init__(call, arguments)
        self.resource = _early_name(call, arguments, "Argument to")

    def result(self, scope: Scope) -> object:
        return scope.reference(self.resource) if self.resource else UNKNOWN

    def refers(self) -> Iterable[str]:
        return (self.resource,) if self.resource else ()


class GetAttrSelecting(Function):
    """As 2013-05-23 has it: the function follows the path itself."""

    summary = "An attribute of a resource, or what a path leads to within it."
    all_attributes: ClassVar[bool] = False
    __slots__ = ("attribute", "path_within", "resource")

    def __init__(self, call: Call, arguments: object) -> None:
        super().__init__(call, arguments)
        given = entries(arguments)
        if given is None:
            raise call.fault(f'Argument to "{call.name}" must be a list')
        if not given or (len(given) < 2 and not self.all_attributes):
            form = "[resource_name, attribute, (path), ...]"
            raise call.fault(f'Arguments to "{call.name}" must be of the form {form}')
        self.resource = _early_name(call, given[0], "First argument to")
        self.attribute: object = given[1] if len(given) > 1 else None
        if len(given) > 1 and not isinstance(self.attribute, str) and not deferred(self.attribute):
            raise call.fault(f'Attribute name in "{call.name}" must be a string')
        self.path_within = given[2:]

    def result(self, scope: Scope) -> object:
        if not self.resource:
            return UNKNOWN
        attribute = resolve(self.attribute, scope)
        path = [resolve(step, scope) for step in self.path_within]
        if attribute is UNKNOWN or has_unknown(path):
            return UNKNOWN
        if attribute is not None and not isinstance(attribute, str):
            raise wrong(f'Attribute name in "{self.name}" must be a string')
        return self.fetch(scope, attribute, path)

    def fetch(self, scope: Scope, attribute: str | None, path: list[object]) -> object:
        return select(scope.attribute(self.resource, attribute, ()), path, None)

    def refers(self) -> Iterable[str]:
        return (self.resource,) if self.resource else ()


class GetAttr(GetAttrSelecting):
    """Since 2014-10-16: the resource follows the path."""

    __slots__ = ()

    def fetch(self, scope: Scope, attribute: str | None, path: list[object]) -> object:
        return scope.attribute(self.resource, attribute, path)


class GetAttrAll(GetAttr):
    """Since 2015-10-15: without an attribute's name all attributes as a map."""

    all_attributes = True
    __slots__ = ()


class GetFile(Function):
    summary = "The content of a file that came with the template."
    __slots__ = ()

    def apply(self, arguments: object) -> object:
        if not isinstance(arguments, str):
            raise wrong(f'Argument to "{self.name}" must be a string')
        content = self.bindings.files.get(arguments)
        if content is None:
            raise wrong(f'No content found in the "files" section for {self.name} path: {arguments}')
        self.bindings.charge(weight(content))
        return content


class ResourceFacade(Function):
    summary = "Within a template that stands for a type: what the resource says that it is used for."
    keys: ClassVar[Mapping[str, str]] = {
        name: name for name in ("metadata", "deletion_policy", "update_policy")
    }  # as written → our name
    __slots__ = ()

    def __init__(self, call: Call, arguments: object) -> None:
        super().__init__(call, arguments)
        if not deferred(arguments) and not (isinstance(arguments, str) and arguments in self.keys):
            raise call.fault(f'Incorrect arguments to "{call.name}" should be one of: {", ".join(self.keys)}')

    def apply(self, arguments: object) -> object:
        if not isinstance(arguments, str) or arguments not in self.keys:
            raise wrong(f'Incorrect arguments to "{self.name}" should be one of: {", ".join(self.keys)}')
        facade = self.bindings.facade
        if facade is None:
            raise wrong(f'"{self.name}" is only possible in a template that a resource uses for its type')
        return facade[self.keys[arguments]]


# -- text ------------------------------------------------------------------------------------------


class ListJoinOne(Function):
    summary = "The items of a list as one text, with a delimiter between them."
    example: ClassVar[str] = '"list_join" : [ " ", [ "str1", "str2"]]'
    most: ClassVar[int | None] = 2
    __slots__ = ()

    def __init__(self, call: Call, arguments: object) -> None:
        super().__init__(call, arguments)
        given = entries(arguments)
        if given is None or len(given) < 2 or (self.most is not None and len(given) > self.most):
            raise call.fault(f'Incorrect arguments to "{call.name}" should be: {self.example}')
        if not isinstance(given[0], str) and not deferred(given[0]):
            raise call.fault(f'The delimiter of "{call.name}" must be a string')

    def apply(self, arguments: object) -> object:
        delimiter, *lists = sequence(arguments)
        if not isinstance(delimiter, str):
            raise wrong(f'The delimiter of "{self.name}" must be a string')
        texts = []
        for items in lists:
            if items is None:
                continue
            if not isinstance(items, list):
                raise wrong(f'"{self.name}" must operate on a list')
            texts += [self.text(item) for item in items]
        if sum(map(len, texts)) + len(delimiter) * len(texts) > MAX_TEXT:
            raise wrong(f'"{self.name}" makes a text of more than {MAX_TEXT} characters')
        joined = delimiter.join(texts)
        self.bindings.charge(weight(joined))
        return joined

    def text(self, item: object) -> str:
        if item is None:
            return ""
        if isinstance(item, str):
            return item
        raise wrong(f"Items to join must be strings not {brief(item)}")


class ListJoin(ListJoinOne):
    summary = "The items of one or more lists as one text, with a delimiter between them."
    example = '"list_join" : [ " ", [ "str1", "str2"], ...]'
    most = None
    __slots__ = ()

    def text(self, item: object) -> str:
        if isinstance(item, (list, Mapping)):
            return _as_json(item)
        if item is None or isinstance(item, str):
            return item or ""
        raise wrong(f"Items to join must be string, map or list not {brief(item)}")


def brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


class StrReplaceText(Function):
    summary = "A text in which names are replaced by values."
    required: ClassVar[bool] = False
    filled: ClassVar[bool] = False
    __slots__ = ()

    def __init__(self, call: Call, arguments: object) -> None:
        super().__init__(call, arguments)
        given = fields(arguments)
        if given is None:
            raise call.fault(f'Arguments to "{call.name}" must be a map')
        if "template" not in given or "params" not in given:
            raise call.fault(f'"{call.name}" syntax should be {{"template": text, "params": {{name: value}}}}')

    def apply(self, arguments: object) -> object:
        assert isinstance(arguments, Mapping)
        template, params = arguments["template"], arguments["params"]
        if not isinstance(template, str):
            raise wrong(f'"{self.name}" template must be a string')
        if not isinstance(params, Mapping):
            raise wrong(f'"{self.name}" params must be a map')
        if "" in params:
            raise wrong(f'"{self.name}" params must not have an empty name')
        values = {key: self.value_text(key, params[key]) for key in params}
        self.bindings.charge(len(values) * weight(template))
        # A text already put in is never looked at again: a character that nobody uses stands for it meanwhile.
        used = set(template).union(*values)
        free = (character for code in range(0xF0000, 0x10FFFE) if (character := chr(code)) not in used)
        put_in: dict[int, str] = {}
        text, size = template, len(template)
        for key in sorted(sorted(values), key=len, reverse=True):
            value = values[key]
            found = text.count(key)
            if not found:
                if self.required:
                    raise wrong(f"The following params were not found in the template: {key}")
                continue
            size += found * (len(value) - len(key))
            if size > MAX_TEXT:
                raise wrong(f'"{self.name}" makes a text of more than {MAX_TEXT} characters')
            mark = next(free)
            text = text.replace(key, mark)
            put_in[ord(mark)] = value
        self.bindings.charge(size >> 7)
        return text.translate(put_in)

    def value_text(self, key: str, value: object) -> str:
        if self.filled and (value is None or value == ""):
            raise wrong(f'"{self.name}" has an undefined or empty value for param {key}')
        if value is None:
            return ""
        if isinstance(value, (str, int, float)):
            return str(value)
        return self.container_text(key, value)

    def container_text(self, key: str, _value: object) -> str:
        raise wrong(f'"{self.name}" params must be strings or numbers, param {key} is not valid')


class StrReplace(StrReplaceText):
    summary = "A text in which names are replaced by values; maps and lists go in as JSON."
    __slots__ = ()

    def container_text(self, _key: str, value: object) -> str:
        return _as_json(value)


class StrReplaceStrict(StrReplace):
    summary = "As str_replace; every name has to occur in the text."
    required = True
    __slots__ = ()


class StrReplaceVeryStrict(StrReplaceStrict):
    summary = "As str_replace_strict; no value may be null or empty."
    filled = True
    __slots__ = ()


class StrSplit(Function):
    summary = "A text cut at a delimiter into a list, or one item of that list."
    __slots__ = ()

    def __init__(self, call: Call, arguments: object) -> None:
        super().__init__(call, arguments)
        given = entries(arguments)
        if given is None or not 2 <= len(given) <= 3:
            example = '"str_split" : [ ",", "apples,pears", <index>]'
            raise call.fault(f'Incorrect arguments to "{call.name}" should be: {example}')

    def apply(self, arguments: object) -> object:
        delimiter, text, *index = sequence(arguments)
        if text is None:
            return None
        if not isinstance(delimiter, str) or not delimiter:
            raise wrong(f'The delimiter of "{self.name}" must be a string with at least one character')
        if not isinstance(text, str):
            raise wrong(f'"{self.name}" must operate on a string')
        items = text.split(delimiter)
        if not index:
            return items
        try:
            return items[int(index[0])]  # type: ignore[call-overload]  # what is no number raises
        except (TypeError, ValueError):
            raise wrong(f'Incorrect index to "{self.name}" should be an integer') from None
        except IndexError:
            raise wrong(f'Incorrect index to "{self.name}" should be between 0 and {len(items) - 1}') from None


class Digest(Function):
    summary = "The digest of a text in hexadecimal, by any algorithm of the installation."
    __slots__ = ()

    def __init__(self, call: Call, arguments: object) -> None:
        super().__init__(call, arguments)
        given = entries(arguments)
        if given is None or len(given) != 2:
            raise call.fault(f'Incorrect arguments to "{call.name}" should be: [ "<algorithm>", "<value>" ]')

    def apply(self, arguments: object) -> object:
        algorithm, text = sequence(arguments)
        if not isinstance(algorithm, str):
            raise wrong("Algorithm must be a string")
        if not isinstance(text, str):
            raise wrong("Digest value must be a string")
        try:
            encoded = text.encode("latin-1")
        except UnicodeEncodeError:
            raise wrong("Digest value must consist of Latin-1 characters") from None
        if algorithm.lower() not in hashlib.algorithms_available:
            allowed = ", ".join(sorted(hashlib.algorithms_available))
            raise wrong(f"Algorithm must be one of {allowed}")
        try:
            return hashlib.new(algorithm.lower(), encoded, usedforsecurity=False).hexdigest()
        except TypeError:  # SHAKE has no length of its own
            raise wrong(f"Algorithm {algorithm} gives no digest of a fixed length") from None
        except ValueError:
            raise wrong(f"Algorithm {algorithm} is not available") from None


class MakeUrl(Function):
    summary = "A URL put together from its parts."
    keys: ClassVar[tuple[str, ...]] = (
        "scheme", "username", "password", "host", "port", "path", "query", "fragment",
    )  # fmt: skip
    __slots__ = ()

    def __init__(self, call: Call, arguments: object) -> None:
        super().__init__(call, arguments)
        given = fields(arguments)
        if given is None:
            raise call.fault(f'The arguments to "{call.name}" must be a map')
        unknown = [key for key in given if key not in self.keys]
        allowed = ", ".join(self.keys)
        raise_together([call.fault(f'Invalid argument to "{call.name}": {key}. Allowed: {allowed}') for key in unknown])

    def apply(self, arguments: object) -> object:
        assert isinstance(arguments, Mapping)
        given = {key: value for key, value in arguments.items() if value is not None and value != ""}
        for key, value in given.items():
            if key == "query":
                if not isinstance(value, Mapping):
                    raise wrong(f'The "query" argument to "{self.name}" must be a map')
            elif key == "port":
                if isinstance(value, bool) or not isinstance(value, (int, str)):
                    raise wrong(f'The "port" argument to "{self.name}" must be a number')
            elif not isinstance(value, str):
                raise wrong(f'The "{key}" argument to "{self.name}" must be a string')
        return self.compose(given)

    def compose(self, given: Mapping[str, object]) -> str:
        def text(key: str) -> str:
            return str(given.get(key, ""))

        user = urls.quote(text("username"), safe="")
        if "password" in given:
            user += ":" + urls.quote(text("password"), safe="")
        host = text("host")
        if ":" in host and not host.startswith("["):
            host = f"[{host}]"
        place = (f"{user}@" if user else "") + host
        if "port" in given:
            if not re.fullmatch("[0-9]{1,5}", text("port")) or not 1 <= int(text("port")) <= 65535:
                raise wrong(f'Invalid port "{text("port")[:20]}" for "{self.name}": must be between 1 and 65535')
            place += f":{int(text('port'))}"
        if ":" in text("scheme"):
            raise wrong(f'"{self.name}" "scheme" should not contain ":"')
        query = given.get("query", {})
        assert isinstance(query, Mapping)
        pairs = {key: "" if value is None else value for key, value in query.items()}
        parts = (
            text("scheme"),
            place,
            urls.quote(text("path")),
            urls.urlencode(pairs, safe="/"),
            urls.quote(text("fragment")),
        )
        return urls.urlunsplit(parts)


# -- lists and maps ----------------------------------------------------------------------------------


class Repeat(Function):
    summary = "A template filled in once for every combination of the items of lists."
    maps: ClassVar[bool] = False
    permutes: ClassVar[bool] = False
    strict = False
    __slots__ = ()

    def __init__(self, call: Call, arguments: object) -> None:
        super().__init__(call, arguments)
        given = fields(arguments)
        if given is None:
            raise call.fault(f'Arguments to "{call.name}" must be a map')
        if "for_each" not in given or "template" not in given:
            form = '{"template": anything, "for_each": {variable: list}}'
            raise call.fault(f'"{call.name}" syntax should be {form}')
        for_each = fields(given["for_each"])
        if for_each is None and not deferred(given["for_each"]):
            raise call.fault(f'The "for_each" argument to "{call.name}" must contain a map')
        if for_each is not None and not for_each:
            raise call.fault(f'The "for_each" argument to "{call.name}" must not be empty')
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
        if not isinstance(permutations, bool):
            raise wrong(f'"permutations" should be boolean type for {self.name} function')
        if any(items is UNKNOWN for items in for_each.values()):
            return UNKNOWN
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
    summary = "As before; with permutations false the lists are walked side by side."
    permutes = True
    __slots__ = ()


class MapMerge(Function):
    summary = "Several maps as one; the later ones win."
    strict = False
    __slots__ = ()

    def __init__(self, call: Call, arguments: object) -> None:
        super().__init__(call, arguments)
        if entries(arguments) is None and not deferred(arguments):
            raise call.fault(f'Incorrect arguments to "{call.name}" should be: [ {{"key1": "val1"}}, ... ]')

    def apply(self, arguments: object) -> object:
        merged: dict[object, object] = {}
        if arguments is UNKNOWN:
            return UNKNOWN
        if not isinstance(arguments, list):
            raise wrong(f'Incorrect arguments to "{self.name}": a list of maps is needed')
        if any(item is UNKNOWN for item in arguments):
            return UNKNOWN
        for item in arguments:
            if item is None:
                continue
            if not isinstance(item, Mapping):
                raise wrong(f'Incorrect arguments to "{self.name}": Items must be maps, not {brief(item)}')
            self.bindings.charge(len(item))
            merged.update(item)
        return merged


class MapReplace(Function):
    summary = "A map with keys renamed and values replaced."
    __slots__ = ()

    def __init__(self, call: Call, arguments: object) -> None:
        super().__init__(call, arguments)
        given = entries(arguments)
        if given is None or len(given) != 2:
            form = '[ {"key1": "val1"}, {"keys": {"key1": "key2"}, "values": {"val1": "val2"}} ]'
            raise call.fault(f'Incorrect arguments to "{call.name}" should be: {form}')

    def apply(self, arguments: object) -> object:
        given, changes = sequence(arguments)
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
            new_key = keys.get(key, key)
            if not isinstance(new_key, str):
                raise wrong(f'"{self.name}" cannot make {brief(new_key)} a key')
            if new_key in replaced or (new_key != key and new_key in given):
                raise wrong(f'"{self.name}": key replacement {key} collides with a key in the output map')
            hashable = not isinstance(value, (list, Mapping))
            replaced[new_key] = values.get(value, value) if hashable else value
        return replaced


class Filter(Function):
    summary = "A list without the items that equal one of some values."
    __slots__ = ()

    def __init__(self, call: Call, arguments: object) -> None:
        super().__init__(call, arguments)
        given = entries(arguments)
        if given is None or len(given) != 2:
            raise call.fault(f'Argument to "{call.name}" must be a list of two: [ values, list ]')

    def apply(self, arguments: object) -> object:
        values, items = sequence(arguments)
        if not items and items in (None, []):
            return items
        if not isinstance(values, list) or not isinstance(items, list):
            raise wrong(f'"{self.name}" needs two lists')
        unwanted = set(map(_mark, values))
        return [item for item in items if _mark(item) not in unwanted]


def _mark(value: object) -> Hashable:
    """Equal for equal values only. 1 and 1.0 and true are equal to each other in Python, as they are for Heat."""
    if isinstance(value, Mapping):
        return "map", frozenset((key, _mark(item)) for key, item in value.items())
    if isinstance(value, list):
        return "list", tuple(map(_mark, value))
    assert isinstance(value, Hashable)
    return value


class ListConcat(Function):
    summary = "Several lists as one."
    strict = False
    __slots__ = ()

    def __init__(self, call: Call, arguments: object) -> None:
        super().__init__(call, arguments)
        if entries(arguments) is None and not deferred(arguments):
            raise call.fault(f'Incorrect arguments to "{call.name}" should be: [ [ "value 1" ], [ "value 2" ], ... ]')

    def apply(self, arguments: object) -> object:
        if arguments is UNKNOWN:
            return UNKNOWN
        if not isinstance(arguments, list):
            raise wrong(f'Incorrect arguments to "{self.name}": a list of lists is needed')
        if any(item is UNKNOWN for item in arguments):
            return UNKNOWN
        joined: list[object] = []
        for item in arguments:
            if item is None:
                continue
            if not isinstance(item, list):
                raise wrong(f'Incorrect arguments to "{self.name}": Items must be lists, not {brief(item)}')
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
    summary = "Whether a value is in a list or a text in a text."
    __slots__ = ()

    def __init__(self, call: Call, arguments: object) -> None:
        super().__init__(call, arguments)
        given = entries(arguments)
        if given is None or len(given) != 2:
            raise call.fault(f'Arguments to "{call.name}" must be of the form: [value1, [value1, value2]]')

    def apply(self, arguments: object) -> object:
        value, within = sequence(arguments)
        if isinstance(within, str) and isinstance(value, str):
            return value in within
        if not isinstance(within, list):
            raise wrong(f'Second argument to "{self.name}" should be a sequence.')
        return value in within


class Select(Function):
    summary = "One item of a list or a map."
    __slots__ = ()

    def __init__(self, call: Call, arguments: object) -> None:
        super().__init__(call, arguments)
        given = entries(arguments)
        if given is None or len(given) != 2:
            raise call.fault(f'Arguments to "{call.name}" must be of the form [index, collection]')

    def apply(self, arguments: object) -> object:
        index, within = sequence(arguments)
        if isinstance(within, str):
            try:
                within = json.loads(within)
            except (ValueError, RecursionError):
                raise wrong(f'"{self.name}" got a text that is not JSON') from None
        if within is None:
            return ""
        if not isinstance(within, (list, Mapping)):
            raise wrong(f'Arguments to "{self.name}" not fully resolved: a list or a map is needed')
        return select(within, [index], "")


# -- macros, and what is not there -----------------------------------------------------------------


class If(Function):
    summary = "One of two values, as a condition says; the other one is not even looked at."
    short: ClassVar[bool] = False
    __slots__ = ()

    @classmethod
    def build(cls, call: Call) -> object:
        given = call.arguments
        if not isinstance(given, list) or not (2 if cls.short else 3) <= len(given) <= 3:
            form = "[condition_name, value_if_true, value_if_false]"
            raise call.fault(f'Arguments to "{call.name}" must be of the form: {form}')
        chosen = 1 if call.bindings.decide(given[0], (*call.path, 0)) else 2
        return OMIT if chosen == len(given) else call.parser.parse_part(given[chosen], (*call.path, chosen))


class IfShort(If):
    summary = "One of two values, as a condition says; without the second one, the item itself vanishes."
    short = True
    __slots__ = ()


class Removed(Function):
    """A function of earlier versions."""

    summary = ""
    __slots__ = ()

    @classmethod
    def build(cls, call: Call) -> object:
        raise call.fault(f'The function "{call.name}" is not supported in this version of HOT.')


# -- conditions ------------------------------------------------------------------------------------


class Equals(Function):
    summary = "Whether two values are equal."
    __slots__ = ()

    def __init__(self, call: Call, arguments: object) -> None:
        super().__init__(call, arguments)
        given = entries(arguments)
        if given is None or len(given) != 2:
            raise call.fault(f'Arguments to "{call.name}" must be of the form: [value_1, value_2]')

    def apply(self, arguments: object) -> object:
        one, other = sequence(arguments)
        return one == other


class Not(Function):
    summary = "The opposite of a condition."
    __slots__ = ()

    @classmethod
    def build(cls, call: Call) -> object:
        return not call.bindings.decide(call.arguments, call.path)


class And(Function):
    summary = "Whether all of several conditions hold."
    __slots__ = ()

    @classmethod
    def build(cls, call: Call) -> object:
        return all(cls.operands(call))

    @classmethod
    def operands(cls, call: Call) -> list[bool]:
        given = call.arguments
        if not isinstance(given, list) or len(given) < 2:
            raise call.fault(f'The minimum number of condition arguments to "{call.name}" is 2.')
        decided: list[bool] = []
        errors: list[StackValidationFailed] = []
        for i, item in enumerate(given):
            try:
                decided.append(call.bindings.decide(item, (*call.path, i)))
            except StackValidationFailed as error:
                errors.append(error.with_traceback(None))
        raise_together(errors)
        return decided


class Or(And):
    summary = "Whether one of several conditions holds."
    __slots__ = ()

    @classmethod
    def build(cls, call: Call) -> object:
        return any(cls.operands(call))
