"""Measures of the product: sizes, complexity, imports.

`python -m tools.measures [FOLDER …]` counts in each checkout and prints a column for it. Lines are physical lines of
Python. The core is all but features and the agent.
"""

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeGuard

LOCAL = ("features", "agent")
"""Folders of `heatlite` that are no part of the core."""
BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)
MOST_COMPLEX = 15


class Checkout:
    """The parsed product of a checkout."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "heatlite"
        self.sources = {path: path.read_text() for path in sorted(self.package.rglob("*.py"))}
        self.trees = {path: ast.parse(text) for path, text in self.sources.items()}

    def is_core(self, path: Path) -> bool:
        """Return True for a file of the core."""
        return path.relative_to(self.package).parts[0] not in LOCAL

    def lines(self, chosen: Callable[[Path], bool] = lambda _: True) -> int:
        """Return the number of lines of the chosen files."""
        return sum(text.count("\n") for path, text in self.sources.items() if chosen(path))

    def nodes(self) -> Iterator[ast.AST]:
        """Yield all nodes of all files."""
        for tree in self.trees.values():
            yield from ast.walk(tree)

    def importers(self) -> int:
        """Return the number of files of the core that import a feature."""
        return sum(self.is_core(path) and _imports_feature(tree) for path, tree in self.trees.items())

    def largest_package(self) -> int:
        """Return the number of entries of the largest package."""
        return max(
            sum(one.suffix == ".py" or (one / "__init__.py").exists() for one in folder.iterdir()) - 1
            for folder in {path.parent for path in self.sources}
        )


def complexity(function: ast.AST) -> int:
    """Return McCabe's number of a function.

    Each `and` and `or` counts as well.
    """
    return 1 + sum(
        len(node.values) - 1 if isinstance(node, ast.BoolOp) else isinstance(node, BRANCHES)
        for node in ast.walk(function)
    )


def is_broad(node: ast.AST) -> TypeGuard[ast.ExceptHandler]:
    """Return True for a handler of all errors."""
    if not isinstance(node, ast.ExceptHandler):
        return False
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(isinstance(kind, ast.Name) and kind.id == "Exception" for kind in kinds)


def _imports_feature(tree: ast.AST) -> bool:
    found = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    found += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    return any(name.startswith("heatlite.features.") for name in found)


def measures(checkout: Checkout) -> Mapping[str, int]:
    """Return the measures by their names."""
    functions = [one for one in checkout.nodes() if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {
        "lines of the product": checkout.lines(),
        "lines of the core": checkout.lines(checkout.is_core),
        "files": len(checkout.sources),
        "files of the core that import a feature": checkout.importers(),
        "entries of the largest package": checkout.largest_package(),
        f"functions with McCabe > {MOST_COMPLEX}": sum(complexity(one) > MOST_COMPLEX for one in functions),
        "except Exception": sum(map(is_broad, checkout.nodes())),
    }


def main(folders: Sequence[str]) -> None:
    """Print a table with a column for each folder."""
    columns = [measures(Checkout(Path(folder))) for folder in folders or ["."]]
    for name in columns[0]:
        print(f"{name:42}" + "".join(f"{column[name]:>10}" for column in columns))


if __name__ == "__main__":
    main(sys.argv[1:])
