"""Changes of local templates, after an operation that has changed the stored one."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from heatlite.cli import files
from heatlite.cli.arguments import argument
from heatlite.cli.client import Client, Object, Stack, objects
from heatlite.cli.errors import CommandError
from heatlite.core.errors import Invalid
from heatlite.core.json import Json, JsonMap, as_map, steps
from heatlite.core.redaction.masking import MASK
from heatlite.template.edits import applied
from heatlite.template.source.loader import load
from heatlite.template.source.rewriting import CannotRewrite, rewritten, written

WRITE = argument(
    "--write",
    type=Path,
    metavar="FILE",
    help="make the same change in this template file and those of its nested templates, if the stack has them",
)


class Stored(Struct, frozen=True):
    """The definition that a stack had before."""

    template: Mapping[str, Json]
    files: Mapping[str, Json] = {}
    """Contents by address."""


def stored(client: Client, stack: Stack) -> Stored:
    """Return the definition that a stack has now."""
    found = (client.request("GET", f"{stack.path}/{part}") for part in ("template", "files"))
    return Stored(*map(as_map, found))


def write(path: Path, before: Stored, plan: Object) -> bool:
    """Make the change of a plan in a template file and those of nested templates.

    Prints what to paste where a file is not as the stored one. Returns False if one stays as it is.
    Raises CommandError.
    """
    parts = [(path, before.template, plan)] if plan.get("template_patch") else []
    for address, edits in as_map(plan.get("files")).items():
        file = Path(unquote(urlsplit(address).path)) if address.startswith("file:") else Path(address)
        parts.append((file, load(str(before.files.get(address))).data, as_map(edits)))
    texts = [_changed(file, data, objects(edits, "template_patch")) for file, data, edits in parts]
    for (file, _, edits), text in zip(parts, texts, strict=True):
        if text is not None:
            file.write_bytes(text.encode())
            print(f"changed {file}", file=sys.stderr)
        else:
            print(f"{file} stays as it is, since it is not the template that the stack had. To paste:", file=sys.stderr)
            print(fragment(objects(edits, "template_patch")), end="")
    _print_other(plan)
    return None not in texts


def _changed(path: Path, stored: Mapping[str, Json], patch: Sequence[Object]) -> str | None:
    """Return the text of a file after a patch; None if that cannot be made of it."""
    try:
        if files.gather(path).template.data != stored:
            return None
        before = files.read(path).decode()
        goal = applied(load(before).data, patch)
        text = rewritten(before, patch, goal)
        return text if load(text).data == goal and MASK not in written([*patch]) else None
    except (CannotRewrite, CommandError, Invalid, LookupError, TypeError, ValueError):
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
    """Print the changes of parameters, environment and another stack."""
    for part in ("parameters", "environment"):
        patch = objects(plan, f"{part}_patch")
        if patch:
            print(f"# {part} of the environment\n{fragment(patch)}", end="")
    if "to_stack" in plan:
        other = as_map(plan["to_stack"])
        for name, edits in {"template": other, **as_map(other.get("files"))}.items():
            if patch := objects(as_map(edits), "template_patch"):
                print(f"# {name} of stack {other.get('name')}\n{fragment(patch)}", end="")
