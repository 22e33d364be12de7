"""Functions of HOT that make text."""

import hashlib
import re
from collections.abc import Mapping
from typing import ClassVar
from urllib import parse as urls

from heatlite.core.json import heat_text
from heatlite.template.expression import (
    Function,
    FunctionCall,
    Shape,
    deferred,
    entries,
    fields,
    raise_together,
    weight,
)
from heatlite.template.functions.arguments import MAX_TEXT, Fields, Items, brief, sequence, wrong


def _as_json(value: object) -> str:
    return heat_text(value, sort_keys=True)


class ListJoinOne(Function):
    summary = "The items of a list as one text, with a delimiter between them."
    takes = Items('Incorrect arguments to "%s" should be: "list_join" : [ " ", [ "str1", "str2"]]', 2, 2)
    skips_empty: ClassVar[bool] = False
    """True if an empty text, as get_param gives for a path that leads nowhere, counts as an empty list."""
    __slots__ = ()

    def __init__(self, call: FunctionCall, arguments: object) -> None:
        super().__init__(call, arguments)
        given = entries(arguments)
        assert given
        if not isinstance(given[0], str) and not deferred(given[0]):
            raise call.fault(f'The delimiter of "{call.name}" must be a string')

    def apply(self, arguments: object) -> object:
        delimiter, *lists = sequence(arguments)
        if not isinstance(delimiter, str):
            raise wrong(f'The delimiter of "{self.name}" must be a string')
        texts = []
        for items in lists:
            if items is None or (self.skips_empty and not items):
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
    takes = Items('Incorrect arguments to "%s" should be: "list_join" : [ " ", [ "str1", "str2"], ...]', 2)
    skips_empty = True
    __slots__ = ()

    def text(self, item: object) -> str:
        if isinstance(item, (list, Mapping)):
            return _as_json(item)
        if item is None or isinstance(item, str):
            return item or ""
        raise wrong(f"Items to join must be string, map or list not {brief(item)}")


class StrReplaceText(Function):
    summary = "A text in which names are replaced by values."
    required: ClassVar[bool] = False
    filled: ClassVar[bool] = False
    takes: ClassVar[Shape | None] = Fields(("template", "params"), '{"template": text, "params": {name: value}}')
    __slots__ = ()

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
        # Inserted text is not searched again: an unused character stands for it meanwhile.
        used = set(template).union(*values)
        free = (character for code in range(0xF0000, 0x10FFFE) if (character := chr(code)) not in used)
        put_in: dict[int, str] = {}
        text, size = template, len(template)
        absent = []
        for key in sorted(sorted(values), key=len, reverse=True):
            value = values[key]
            found = text.count(key)
            if not found:
                absent.append(key)  # or it occurs only within longer ones
                continue
            size += found * (len(value) - len(key))
            if size > MAX_TEXT:
                raise wrong(f'"{self.name}" makes a text of more than {MAX_TEXT} characters')
            mark = next(free)
            text = text.replace(key, mark)
            put_in[ord(mark)] = value
        if self.required and absent:
            raise wrong(f"The following params were not found in the template: {', '.join(absent)}")
        self.bindings.charge(size >> 7)
        return text.translate(put_in)

    def value_text(self, key: str, value: object) -> str:
        if self.filled and value in (None, "", [], {}):
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
    summary = "As str_replace; every name must occur in the text."
    required = True
    __slots__ = ()


class StrReplaceVeryStrict(StrReplaceStrict):
    summary = "As str_replace_strict; no value may be null or empty."
    filled = True
    __slots__ = ()


class StrSplit(Function):
    summary = "A text cut at a delimiter into a list, or one item of that list."
    late = True
    takes = Items('Incorrect arguments to "%s" should be: "str_split" : [ ",", "apples,pears", <index>]', 2, 3)
    __slots__ = ()

    def apply(self, arguments: object) -> object:
        delimiter, text, *index = sequence(arguments)
        if text is None:
            return None
        if delimiter is not None and (not isinstance(delimiter, str) or not delimiter):
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
    takes = Items('Incorrect arguments to "%s" should be: [ "<algorithm>", "<value>" ]', 2, 2)
    __slots__ = ()

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

    def __init__(self, call: FunctionCall, arguments: object) -> None:
        super().__init__(call, arguments)
        given = fields(arguments)
        if given is None:
            raise call.fault(f'The arguments to "{call.name}" must be a map')
        unknown = [key for key in given if key not in self.keys]
        allowed = ", ".join(self.keys)
        raise_together([call.fault(f'Invalid argument to "{call.name}": {key}. Allowed: {allowed}') for key in unknown])

    def apply(self, arguments: object) -> object:
        assert isinstance(arguments, Mapping)
        for key, value in arguments.items():
            if key == "query":
                if not isinstance(value, Mapping):
                    raise wrong(f'The "query" argument to "{self.name}" must be a map')
            elif key == "port":
                if isinstance(value, bool) or not isinstance(value, (int, str)):
                    raise wrong(f'The "port" argument to "{self.name}" must be a number')
            elif not isinstance(value, str):
                raise wrong(f'The "{key}" argument to "{self.name}" must be a string')
        return self.compose(arguments)

    def compose(self, given: Mapping[str, object]) -> str:
        def text(key: str) -> str:
            return str(given.get(key, ""))

        user = urls.quote(text("username"), safe="")
        if given.get("password"):
            user += ":" + urls.quote(text("password"), safe="")
        host = text("host")
        if ":" in host:
            host = f"[{urls.quote(host.removeprefix('[').removesuffix(']'), safe=':')}]"
        else:
            host = urls.quote(host, safe="")
        place = (f"{user}@" if user else "") + host
        if "port" in given:
            if not re.fullmatch("[0-9]{1,5}", text("port")) or not 1 <= int(text("port")) <= 65535:
                raise wrong(f'Invalid port {brief(text("port"))} for "{self.name}": must be between 1 and 65535')
            place += f":{text('port')}"
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
