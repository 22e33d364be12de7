"""Private parts of libraries that the product uses.

``python -m tests.private_parts`` lists them: library, place, name, reason. The exit code is 1 if there are any. It sees
imports, attributes of imported modules, underscore names, and what classes inherit; it does not know types of objects.
"""

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.documented_parts import DOCUMENTED, EXCEPTIONS, MEMBERS, STANDARD, UNDERSCORES

ROOT = Path(__file__).parents[1]
OWN = ("heatlite", "benchmarks")
PRIVATE = re.compile(r"_(?!$)(?!_\w+__$)")
"""Beginning of an underscore name. ``__special__`` ones are public."""


def is_private(dotted: str) -> bool:
    return any(PRIVATE.match(part) for part in dotted.split("."))


def library(dotted: str) -> str:
    return dotted.partition(".")[0]


class Module:
    """A module of the product."""

    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._name = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        self._tree = ast.parse(text)
        self._imported: dict[str, str] = {}
        """Name in the module → dotted name of what was imported."""
        self._found: set[tuple[str, int, str, str]] = set()

    def findings(self) -> Iterator[str]:
        """Look for private parts. Yields a line for each."""
        nodes = [*ast.walk(self._tree)]
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for one in node.names:
                    dotted = one.name if isinstance(node, ast.Import) else f"{node.module}.{one.name}"
                    is_top = isinstance(node, ast.Import) and not one.asname
                    self._imported[one.asname or library(one.name)] = library(dotted) if is_top else dotted
                    self._check(node.lineno, dotted)
        own = {name for node in nodes for name in _defined(node)}
        for node in nodes:
            if isinstance(node, ast.Attribute):
                self._look_at_attribute(node, own)
            elif isinstance(node, ast.Call):
                for name in _given_as_text(node):
                    if is_private(name) and name not in own:
                        self._add("?", node.lineno, name, "underscore name as a text")
            elif isinstance(node, ast.ClassDef):
                for base in dict.fromkeys(base for given in node.bases for base in self._resolved(given)):
                    if library(base.__module__) not in (*OWN, "builtins", "typing"):
                        self._look_at_class(node, base)
        for of, line, name, reason in sorted(self._found):
            yield f"{of:20} {self._path}:{line}  {name}  {reason}"

    def _add(self, of: str, line: int, name: str, reason: str) -> None:
        if name not in UNDERSCORES and (self._path, name) not in EXCEPTIONS:
            self._found.add((of, line, name, reason))

    def _check(self, line: int, dotted: str) -> None:
        """Add the name if the documentation of its library does not have it."""
        of = library(dotted)
        if of in OWN or dotted in STANDARD:
            return
        is_standard, names = of in sys.stdlib_module_names, DOCUMENTED.get(of, ())
        if is_private(dotted):
            self._add(of, line, dotted, "underscore name")
        elif is_standard and not _is_exported(dotted):
            self._add(of, line, dotted, "not in __all__")
        elif not is_standard and not any(_covers(name, dotted) for name in names):
            self._add(of, line, dotted, "undocumented: tests/documented_parts.py has no such name")

    def _look_at_attribute(self, node: ast.Attribute, own: set[str]) -> None:
        dotted = ast.unparse(node)
        root, _, rest = dotted.partition(".")
        if root in self._imported and dotted.replace(".", "").isidentifier():
            self._check(node.lineno, f"{self._imported[root]}.{rest}")
        elif is_private(node.attr) and node.attr not in own and not _is_self(node.value):
            self._add("?", node.lineno, node.attr, f"underscore name: {dotted[:60]}")

    def _resolved(self, base: ast.expr) -> tuple[type, ...]:
        """Return the class of a base of a class, and those that it inherits from."""
        root, _, rest = ast.unparse(base).partition("[")[0].partition(".")
        owner, _, name = self._imported.get(root, f"{self._name}.{root}").rpartition(".")
        try:
            found = getattr(importlib.import_module(owner), name) if owner else importlib.import_module(name)
            for part in filter(None, rest.split(".")):
                found = getattr(found, part)
        except (AttributeError, ImportError):  # a class in a function, or a library that is not installed
            return ()
        return inspect.getmro(found) if inspect.isclass(found) else ()

    def _look_at_class(self, node: ast.ClassDef, base: type) -> None:
        of, documented = library(base.__module__), MEMBERS.get(f"{base.__module__}.{base.__qualname__}")
        used = {name: one.lineno for one in ast.walk(node) for name in _defined(one)}
        attributes = (one for one in ast.walk(node) if isinstance(one, ast.Attribute))
        used |= {one.attr: one.lineno for one in attributes if _is_self(one.value)}
        for name in used.keys() & _members(base):
            if is_private(name):
                self._add(of, used[name], f"{base.__qualname__}.{name}", f"underscore name, in {node.name}")
            elif documented is not None and name not in documented and not name.startswith("__"):
                self._add(of, used[name], f"{base.__qualname__}.{name}", f"undocumented, in {node.name}")


def _covers(documented: str, dotted: str) -> bool:
    """Return whether a documented name is this one, above it, or in this package."""
    return f"{dotted}.".startswith(f"{documented}.") or f"{documented}=".startswith((f"{dotted}.", f"{dotted}="))


def _is_self(node: ast.expr) -> bool:
    return ast.unparse(node) in ("self", "cls", "super()")


def _defined(node: ast.AST) -> Iterator[str]:
    """Yield the name that a node defines, or sets on `self`."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
            yield name


def _given_as_text(call: ast.Call) -> Iterator[str]:
    """Yield the names of attributes that a call of a built-in function has as texts."""
    function, names = ast.unparse(call.func), call.args[1:2]
    if function == "type" and len(call.args) == 3 and isinstance(call.args[2], ast.Dict):
        names = [key for key in call.args[2].keys if key is not None]
    if function in ("getattr", "setattr", "hasattr", "delattr", "type"):
        yield from (one.value for one in names if isinstance(one, ast.Constant) and isinstance(one.value, str))


def _is_exported(dotted: str) -> bool:
    """Return False for a name that its module of the standard library keeps."""
    parts = dotted.split(".")
    for at in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:at]))
        except ImportError:
            continue
        return at == len(parts) or parts[at] in getattr(module, "__all__", (parts[at],))
    return False


@cache
def _members(base: type) -> frozenset[str]:
    """Return the names that the class defines, or sets on its instances."""
    try:
        assigned = re.findall(r"\bself\.(\w+)\s*(?::[^=\n]+)?=[^=]", inspect.getsource(base))
    except (OSError, TypeError):  # compiled
        assigned = []
    return frozenset({*vars(base), *assigned})


def listing() -> list[str]:
    """Return a line for each private part in use."""
    paths = sorted(path for package in OWN for path in (ROOT / package).rglob("*.py"))
    return [line for path in paths for line in Module(str(path.relative_to(ROOT)), path.read_text()).findings()]


if __name__ == "__main__":
    found = listing()
    print("\n".join(found) or "nothing private is used")
    sys.exit(bool(found))
