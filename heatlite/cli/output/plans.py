"""Plans of updates as text and rows."""

from collections import Counter
from collections.abc import Sequence

from heatlite.cli.client import Client, Object, Stack, an_object, health_of, objects, text
from heatlite.cli.output import render
from heatlite.core.json import JsonMap

MARKS = {"create": "+", "update": "~", "replace": "±", "delete": "-", "refuse": "!", "restrict": "!"}
"""Marks of actions. ``!``: the update would fail there."""

_STYLES = {"+": "green", "~": "yellow", "±": "magenta", "-": "red", "!": "bold red"}

WORDS = {"create": "added", "update": "updated", "replace": "replaced", "delete": "deleted", "keep": "unchanged"}
"""Heat's words for actions."""

COLUMNS = ("change", "resource_name", "resource_type", "cause", "health", "properties")

_ORDERS = {"delete_first": "the old one is deleted first", "rebuild": "rebuilt in place"}


def fetch(client: Client, stack: Stack | None, name: str, body: JsonMap) -> tuple[list[Object], str | None]:
    """Return the plan of a create or an update, and the digest of an update."""
    query = {"plan": "True"}
    if stack is None:
        answer = client.request("POST", "/stacks/preview", {"stack_name": name, **body}, query)
    else:
        answer = client.request("PUT", f"{stack.path}/preview", body, query)
    plan = an_object(answer, "plan")
    return objects(plan, "resources"), text(plan.get("digest")) or None


def has_changes(plan: Sequence[Object]) -> bool:
    """Return True if the plan changes a resource, or fails at one."""
    return any(text(item.get("action")) in MARKS or item.get("metadata_differs") for item in plan)


def draw(plan: Sequence[Object]) -> None:
    """Print the changes in the order of execution, and their counts."""
    for item in plan:
        mark = MARKS.get(text(item.get("action")))
        if mark is not None:
            reasons = [text(item.get("cause")), _ORDERS.get(text(item.get("order")), "")]
            reason = "; ".join(filter(None, reasons))
            shown = f"{mark} {_path(item)}  ({text(item.get('resource_type'))})"
            render.line(f"{shown}  {reason}" if reason else shown, _STYLES[mark])
            for difference in objects(item, "properties"):
                print(f"    {_difference(difference, mark)}")
            if item.get("metadata_differs"):
                print("    its metadata changes")
        if item.get("health"):
            reason = text(an_object(item, "health").get("reason"))
            render.line(f"? {_path(item)}  ({text(item.get('resource_type'))})  its health is unknown: {reason}", "dim")
    found = Counter(text(item.get("action")) for item in plan)
    counts = [f"{found[action]} {word}" for action, word in WORDS.items()]
    failing = found["refuse"] + found["restrict"]
    unknown = sum(bool(item.get("health")) for item in plan)
    more = [f"{failing} would fail"] if failing else []
    more += [f"the health of {unknown} is unknown"] if unknown else []
    print(f"Plan: {', '.join([*counts, *more])}.")


def _path(item: Object) -> str:
    path = item.get("path")
    return "/".join(map(text, path)) if isinstance(path, list) else ""


def _difference(item: Object, mark: str) -> str:
    old, new = render.cell(item.get("old")), render.cell(item.get("new"))
    used = item.get("because_of")
    notes = [f"from {', '.join(map(text, used))}"] if isinstance(used, list) and used and mark != "+" else []
    if mark == "±" and item.get("replaces"):
        notes.append("replaces")
    values = new if mark == "+" else f"{old or 'null'} → {new or 'null'}"
    note = f"  ({', '.join(notes)})" if notes else ""
    return f"{text(item.get('name'))}: {values}{note}"


def rows(plan: Sequence[Object]) -> list[Object]:
    """Return one row for each resource, with COLUMNS."""
    return [
        {
            "change": WORDS.get(action := text(item.get("action")), action),
            "resource_name": _path(item),
            "resource_type": item.get("resource_type"),
            "cause": item.get("cause"),
            "health": health_of(item),
            "properties": item.get("properties"),
        }
        for item in plan
    ]
