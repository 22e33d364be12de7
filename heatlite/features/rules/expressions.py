"""Expressions of rules in CEL, by the library cel-expr-python.

Nothing else knows the library. The library bounds nesting and loops. It does not bound values, so `growth` refuses
expressions whose values could become larger than what they look at.
"""

import re
from collections.abc import Iterator, Sequence
from copy import copy
from datetime import datetime
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from heatlite.core.json import Json, JsonMap, as_maps
from heatlite.core.runtime.extras import MissingLibrary

if TYPE_CHECKING:
    from cel_expr_python.cel import Activation, Env, Expression

MANY: Final = 1000
"""Largest number of resources of a plan that rules on resources see. More would be converted for each of them."""
TOO_MANY = f"with for: resource, plan.resources has up to {MANY} resources. Ask with for: plan, or use plan.counts"
FIELDS: Final = (
    "path", "type", "action", "physical_id", "properties", "old", "changed", "unknown", "protected",
)  # fmt: skip
"""Fields of `resource`."""
MAX_ERROR = 200
"""Characters of an error."""
_PLACE = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): ([^\n]*)")
_CODE = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")


class Variables:
    """Values of the variables that all resources of a plan share."""

    def __init__(self, plan: JsonMap, user: JsonMap, now: datetime) -> None:
        """`now` has its time zone."""
        self.values: dict[str, object] = {**_flat("plan", plan), **_flat("user", user), "now": now}
        self.few = self.values
        """Those for rules on resources."""
        self.fields: Sequence[str] = FIELDS
        """Those of each resource."""
        if len(as_maps(plan.get("resources"))) > MANY:
            self.few = {name: value for name, value in self.values.items() if name != "plan.resources"}

    def named_in(self, text: str) -> "Variables":
        """Return those that expressions may use, by the last words of their names.

        The library takes its time for each.
        """
        found = copy(self)
        found.few = {name: value for name, value in self.few.items() if name.rpartition(".")[2] in text}
        found.fields = [name for name in self.fields if name in text]
        return found


class Bound:
    """Variables, ready for the evaluation of expressions. Not safe for threads."""

    def __init__(self, variables: Variables, resource: JsonMap | None = None) -> None:
        """With a `resource`, expressions are those of rules on resources."""
        self._about_resource = resource is not None
        self._values = variables.values
        if resource is not None:
            own = {key: resource[key] for key in variables.fields if key in resource}
            self._values = {**variables.few, **_flat("resource", own)}
        self._activation: Activation | None = None

    def result(self, text: str) -> bool | str:
        """Return the result of an expression, or the error that prevents it."""
        try:
            expression = _compiled(text, self._about_resource)
        except MissingLibrary as error:
            return error.message
        except RuntimeError as error:
            return _in_words(error)
        return self._evaluated(expression)

    def _evaluated(self, expression: "Expression") -> bool | str:
        if self._activation is None:
            self._activation = _environment(self._about_resource).Activation(self._values)
        try:
            found = expression.eval(self._activation)
            kind, value = found.type().name(), found.value()
        except RuntimeError as error:
            return _in_words(error)
        if isinstance(value, bool):
            return value
        if kind == "ERROR":
            return TOO_MANY if '"plan.resources"' in value else _short(_CODE.sub("", value))
        return f"its result is no bool, but of the type {kind}"


def joined(texts: Sequence[str]) -> str:
    """Return an expression that is false if all are false and none has an error."""
    return " || ".join(f"({one}\n)" for one in texts)


def fault(text: str, about_resource: bool) -> str | None:
    """Return what is wrong with an expression, with line and column.

    Raises MissingLibrary.
    """
    try:
        expression = _compiled(text, about_resource)
    except RuntimeError as error:
        places = [
            f"line {max(1, int(line))}, column {max(1, int(column))}: {_short(told)}"
            for line, column, told in _PLACE.findall(str(error))
        ]
        return places[0] if places else f"line 1, column 1: {_in_words(error)}"
    kind = expression.return_type().name()
    if kind not in ("BOOL", "DYN"):
        return f"line 1, column 1: its result is no bool, but of the type {kind}"
    return growth(text)


def _in_words(error: RuntimeError) -> str:
    places = _PLACE.findall(str(error))
    return _short(places[0][2] if places else re.sub(_CODE, "", str(error)))


def _short(text: str) -> str:
    line = text.partition("\n")[0].removesuffix(" (in container '')")
    return line if len(line) <= MAX_ERROR else f"{line[:MAX_ERROR]}…"


@lru_cache(maxsize=1024)
def _compiled(text: str, about_resource: bool) -> "Expression":
    """Return a compiled expression. Raises RuntimeError, MissingLibrary."""
    return _environment(about_resource).compile(text)


@lru_cache(maxsize=2)
def _environment(about_resource: bool) -> "Env":
    try:
        from cel_expr_python import cel
    except ImportError as error:
        raise MissingLibrary("A rule", error.name, "rules") from None
    text, some = cel.Type.STRING, cel.Type.DYN
    texts, values = cel.Type.List(text), cel.Type.Map(text, some)
    kinds = {
        "now": cel.Type.TIMESTAMP,
        "user.name": text,
        "user.roles": texts,
        "plan.operation": text,
        "plan.project": text,
        "plan.stack": text,
        "plan.tags": texts,
        "plan.counts": cel.Type.Map(text, cel.Type.INT),
        "plan.resources": cel.Type.List(cel.Type.Map(text, text)),
    }
    of_fields = (text, text, text, some, values, values, texts, texts, cel.Type.BOOL)
    of_resource = {f"resource.{name}": kind for name, kind in zip(FIELDS, of_fields, strict=True)}
    return cel.NewEnv(variables={**kinds, **of_resource} if about_resource else kinds)


def _flat(name: str, fields: JsonMap) -> dict[str, object]:
    """Return fields as variables of their own.

    The library converts only the variables that are used.
    """
    return {f"{name}.{key}": value for key, value in fields.items()}


def plain(value: Json) -> Json:
    """Return a value as the library takes it.

    It takes no whole numbers of more than 64 bits, and no lone surrogates.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {name if name.isascii() else str(plain(name)): plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value) if abs(value) < 2**1000 else inf
    return value


# -- growth -------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<skipped>\s+|//[^\n]*)
    |(?P<raw>(?:[rR][bB]?|[bB][rR])(?:\"\"\".*?\"\"\"|'''.*?'''|"[^"\n]*"|'[^'\n]*'))
    |(?P<text>[bB]?(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<name>[^\W\d]\w*)
    |(?P<number>\d\w*)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_LOOPS = frozenset({"all", "exists", "exists_one", "filter"})
_OPENS, _CLOSES = ("(", "[", "{"), (")", "]", "}")
_WORDS = frozenset({"true", "false", "null"})
"""Names that stand for values of a literal."""


class _Token(Struct, frozen=True):
    kind: str
    text: str
    place: int


def growth(text: str) -> str | None:
    """Return what could make the values of an expression large, with its place.

    `map` makes lists of lists. Within a loop, `+` and a list or map of variables make larger values, and the next
    loop takes these. Without them each value has at most the size of the text times that of its variables.
    """
    tokens = [*_tokens(text)]
    open_parts: list[str] = []
    for number, one in enumerate(tokens):
        before = tokens[number - 1] if number else None
        if one.text in _OPENS:
            open_parts.append(_part(tokens, number))
        elif one.text in _CLOSES and open_parts:
            open_parts.pop()
        elif one.text == "map" and before is not None and before.text == ".":
            return _at(text, one, "rules have no map. Use exists, all, exists_one or filter")
        elif "loop" in open_parts and one.text == "+":
            return _at(text, one, "no + within exists, all, exists_one or filter")
        elif one.kind == "name" and one.text not in _WORDS and "literal" in _after_loop(open_parts):
            return _at(text, one, "a list or map within exists, all, exists_one or filter has constants only")
    return None


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup or ""
        if kind != "skipped":
            yield _Token(kind, found.group(), found.start())


def _part(tokens: list[_Token], number: int) -> str:
    """Return what an opening bracket begins: a loop, a literal, or another part."""
    mark, before = tokens[number].text, tokens[number - 1] if number else None
    if mark == "(":
        is_loop = number > 1 and tokens[number - 1].text in _LOOPS and tokens[number - 2].text == "."
        return "loop" if is_loop else "part"
    is_index = (
        mark == "["
        and before is not None
        and (before.kind in ("name", "text", "raw") or before.text in ("]", ")", "}"))
        and before.text != "in"
    )
    return "part" if is_index else "literal"


def _after_loop(open_parts: list[str]) -> list[str]:
    return open_parts[open_parts.index("loop") :] if "loop" in open_parts else []


def _at(text: str, token: _Token, reason: str) -> str:
    line, start = text.count("\n", 0, token.place) + 1, text.rfind("\n", 0, token.place) + 1
    return f"line {line}, column {token.place - start + 1}: {reason}"
