"""Changes of local templates, after an operation that has changed the stored one."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from heatlite.cli import files
from heatlite.cli.arguments import argument
from heatlite.cli.client import Object, objects
from heatlite.core.errors import Invalid
from heatlite.core.json import Json, JsonMap, steps
from heatlite.core.redaction.masking import MASK
from heatlite.template.edits import applied
from heatlite.template.source.loader import load
from heatlite.template.source.rewriting import CannotRewrite, rewritten, written

WRITE = argument(
    "--write",
    type=Path,
    metavar="FILE",
    help="make the same change in this template file, if it is the template of the stack",
)


def write(path: Path, stored: Mapping[str, Json], plan: Object) -> bool:
    """Make the change of a plan in a template file, or print what to paste into it.

    `stored` is the template of the stack before. Returns False if the file stays as it is. Raises CommandError.
    """
    patch = objects(plan, "template_patch")
    text = _changed(path, stored, patch)
    if text is not None:
        path.write_bytes(text.encode())
        print(f"changed {path}", file=sys.stderr)
    else:
        print(f"{path} stays as it is, since it is not the template that the stack had. To paste:", file=sys.stderr)
        print(fragment(patch), end="")
    _print_other(plan)
    return text is not None


def _changed(path: Path, stored: Mapping[str, Json], patch: Sequence[Object]) -> str | None:
    """Return the text of a file after a patch; None if that cannot be made of it."""
    try:
        if files.gather(path).template.data != stored:
            return None
        before = files.read(path).decode()
        goal = applied(load(before).data, patch)
        text = rewritten(before, patch, goal)
        return text if load(text).data == goal and MASK not in written([*patch]) else None
    except (CannotRewrite, Invalid, LookupError, TypeError, ValueError):
        return None


def fragment(patch: Sequence[Object]) -> str:
    """Return the parts that operations of JSON Patch set, as YAML.

    It has a comment for each part that they remove.
    """
    removed, found = [], JsonMap()
    for operation in patch:
        *above, last = steps(str(operation["path"]))
        if operation["op"] == "remove":
            removed.append(f"# remove {'.'.join((*above, last))}\n")
            continue
        at = found
        for step in above:
            inner = at.setdefault(step, {})
            assert isinstance(inner, dict)
            at = inner
        at[last] = operation["value"]
    return "".join(removed) + (written(found) if found else "")


def _print_other(plan: Object) -> None:
    """Print the changes of parameters and environment, which no template has."""
    for part in ("parameters", "environment"):
        patch = objects(plan, f"{part}_patch")
        if patch:
            print(f"# {part} of the environment\n{fragment(patch)}", end="")
