"""Plans of updates as text and rows."""

from collections import Counter
from collections.abc import Collection, Sequence

from msgspec import Struct

from heatlite.cli.client import Client, Object, Stack, an_object, health_of, objects, text
from heatlite.cli.output import render
from heatlite.core.errors import abbreviated
from heatlite.core.json import JsonMap, as_map, as_texts, parse

MARKS = {
    "create": "+", "update": "~", "replace": "±", "delete": "-", "refuse": "!", "restrict": "!", "join": ">",
    "leave": "<", "move": ">",
}  # fmt: skip
"""Marks of actions. ``!``: the update would fail there."""

_STYLES = {"+": "green", "~": "yellow", "±": "magenta", "-": "red", "!": "bold red", ">": "green", "<": "yellow"}

WORDS = {"create": "added", "update": "updated", "replace": "replaced", "delete": "deleted", "keep": "unchanged"}
"""Heat's words for actions."""

OWNERSHIP = {"join": "joining", "leave": "leaving", "move": "moving"}
"""Words for actions that touch no object."""

COLUMNS = ("change", "resource_name", "resource_type", "cause", "health", "properties")
MOST_SHOWN = 10
"""Paths that a line has."""
SELECTION = "selection"
"""Column of a restricted update."""

_ORDERS = {"delete_first": "the old one is deleted first", "rebuild": "rebuilt in place"}


class FetchedPlan(Struct, frozen=True):
    """Plan of a create or an update."""

    resources: list[Object]
    digest: str | None
    """Digest of an update."""
    facts: Object
    """Further keys, of features."""


def fetch(client: Client, stack: Stack | None, name: str, body: JsonMap, reset: bool) -> FetchedPlan:
    """Return the plan of a create or an update.

    With `reset` the body is the whole definition.
    """
    query = {"plan": "True"}
    if stack is None:
        answer = client.request("POST", "/stacks/preview", {"stack_name": name, **body}, query)
    else:
        answer = client.request("PUT" if reset else "PATCH", f"{stack.path}/preview", body, query)
    plan = an_object(answer, "plan")
    facts = {key: value for key, value in plan.items() if key not in ("resources", "digest")}
    return FetchedPlan(objects(plan, "resources"), text(plan.get("digest")) or None, facts)


def kept(client: Client, stack: Stack, body: JsonMap, others: Collection[str]) -> str:
    """Return a line with the stored values that an update keeps; "" without any.

    The server masks hidden ones. `others` get new values in another way.
    """
    stored = an_object(an_object(client.request("GET", f"{stack.path}/environment")), "parameters")
    declared, given = _declared(body), {*_given(body), *others}
    names = [name for name in stored if name in declared and name not in given]
    return f"keeps {', '.join(f'{name}={render.inline(stored[name])}' for name in names)}" if names else ""


def unknown(body: JsonMap) -> bool:
    """Return whether a body has a value for a parameter that its template lacks.

    An update that keeps stored values would leave it out without a word.
    """
    return not _given(body) <= _declared(body)


def _given(body: JsonMap) -> set[str]:
    """Return the names of the parameters that a body has values for."""
    files, given = as_map(body.get("files")), {*as_map(body.get("parameters"))}
    merged = [parse(str(files[name])) for name in as_texts(body.get("environment_files"))]
    for environment in (body.get("environment"), *merged):
        given |= as_map(as_map(environment).get("parameters")).keys()
    return given


def _declared(body: JsonMap) -> set[str]:
    template = as_map(body["template"])
    return {*as_map(template.get("parameters")), *as_map(template.get("Parameters"))}


def of_deletion(client: Client, stack: Stack, retain: Sequence[str]) -> Object:
    """Return the plan of a deletion.

    `retain` are names of resources whose objects stay.
    """
    body: JsonMap = {"delete": {"retain": [*dict.fromkeys(retain)]} if retain else None}
    return an_object(client.request("PATCH", f"{stack.path}/preview", body, {"plan": "True"}), "plan")


def gone_and_staying(plan: Object) -> tuple[list[str], list[str]]:
    """Return lines on the objects that a deletion removes, and on those that stay.

    They are in the order of their paths.
    """
    lines: dict[str, list[str]] = {"delete": [], "keep": []}
    for item in sorted(objects(plan, "resources"), key=path_of):
        named = f"{path_of(item)}  ({text(item.get('resource_type'))})  {text(item.get('physical_resource_id'))}"
        cause = text(item.get("cause"))
        stays = f"stays in the cloud: {cause}" if item.get("action") == "keep" else cause
        lines[text(item.get("action"))].append(f"{named}  {stays}".rstrip())
    return lines["delete"], lines["keep"]


def has_changes(plan: Sequence[Object]) -> bool:
    """Return True if the plan changes a resource, or fails at one."""
    return any(text(item.get("action")) in MARKS or item.get("metadata_differs") for item in plan)


def draw(plan: Sequence[Object], is_whole: bool = True) -> None:
    """Print the changes in the order of execution, and their counts.

    `is_whole`: what stays as it is is counted, too.
    """
    for item in plan:
        mark = MARKS.get(text(item.get("action")))
        if mark is not None:
            reasons = [text(item.get("cause")), _ORDERS.get(text(item.get("order")), "")]
            reasons += ["pulled in"] if item.get("selection") == "pulled_in" else []
            reason = "; ".join(filter(None, reasons))
            shown = f"{mark} {path_of(item)}  ({text(item.get('resource_type'))})"
            render.line(f"{shown}  {reason}" if reason else shown, _STYLES[mark])
            for difference in objects(item, "properties"):
                print(f"    {_difference(difference, mark)}")
            if item.get("metadata_differs"):
                print("    its metadata changes")
        elif item.get("selection") == "left_out":
            shown = f"  {path_of(item)}  ({text(item.get('resource_type'))})  {text(item.get('cause')) or 'left out'}"
            render.line(shown, "dim")
        if item.get("health"):
            reason = text(an_object(item, "health").get("reason"))
            shown = f"? {path_of(item)}  ({text(item.get('resource_type'))})"
            render.line(f"{shown}  its health is unknown: {reason}", "dim")
    found = Counter(text(item.get("action")) for item in plan)
    counts = [f"{found[action]} {word}" for action, word in OWNERSHIP.items() if found[action]]
    counts += [f"{found[action]} {word}" for action, word in WORDS.items() if is_whole or action != "keep"]
    failing = found["refuse"] + found["restrict"]
    unknown = sum(bool(item.get("health")) for item in plan)
    left_out = sum(item.get("selection") == "left_out" for item in plan)
    more = [f"{failing} would fail"] if failing else []
    more += [f"{left_out} left out"] if left_out else []
    more += [f"the health of {unknown} is unknown"] if unknown else []
    print(f"Plan: {', '.join([*counts, *more])}.")


def left_out(restricted: Object) -> str:
    """Return what updates have left out of the definition of a stack."""
    paths = restricted.get("left_out")
    names = [*map(text, paths)] if isinstance(paths, list) else []
    return f"an update has left out {abbreviated(names, MOST_SHOWN)}"


def path_of(item: Object) -> str:
    """Return the path of a resource of a plan."""
    path = item.get("path")
    return "/".join(map(text, path)) if isinstance(path, list) else ""


def _difference(item: Object, mark: str) -> str:
    old, new = render.inline(item.get("old")), render.inline(item.get("new"))
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
            "resource_name": path_of(item),
            "resource_type": item.get("resource_type"),
            "cause": item.get("cause"),
            "health": health_of(item),
            "properties": item.get("properties"),
            SELECTION: item.get(SELECTION),
        }
        for item in plan
    ]
