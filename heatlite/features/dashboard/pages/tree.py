"""Resources of a stack as a tree.

A nested stack is inside the resource that made it.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.json import JsonMap, as_map, as_maps, as_texts
from heatlite.features.dashboard.client import ProjectApi, href, text

FOLDED_ABOVE = 50
"""Members of a nested stack above which it is folded at first."""


class ResourceNode(Struct):
    """A resource of a stack or of a stack nested in it."""

    name: str
    path: tuple[str, ...]
    """Names from the root stack's resource down."""
    type: str
    status: str
    reason: str
    physical_id: str
    updated: str
    required_by: Sequence[str]
    """Names of resources of the same stack."""
    stack_path: str
    """Path of its stack below the project: ``/stacks/NAME/ID``."""
    nested_path: str
    """Path of the nested stack, or an empty text."""
    health: JsonMap
    is_protected: bool
    is_old: bool = False
    """True for an object that an update has replaced and that waits for its deletion."""
    members: list["ResourceNode"] = []

    @property
    def is_bad(self) -> bool:
        """True for a failed or unhealthy resource."""
        return self.status.endswith("_FAILED") or self.health.get("state") in ("unhealthy", "unknown")

    @property
    def key(self) -> str:
        """Its path as text: ``web/2``."""
        return "/".join(self.path)

    def walk(self) -> Iterator["ResourceNode"]:
        """Yield the resource and all below it."""
        yield self
        for one in self.members:
            yield from one.walk()

    @property
    def bad_below(self) -> int:
        """Number of failed or unhealthy resources below it."""
        return sum(node.is_bad for one in self.members for node in one.walk())


def tree_of(api: ProjectApi, path: str) -> list[ResourceNode]:
    """Return the resources of a stack by its path, with those of nested stacks."""
    return tree(as_maps(api.get(f"{path}/resources", nested_depth=20).get("resources")))


def tree(resources: Iterable[JsonMap]) -> list[ResourceNode]:
    """Arrange a list of resources with nested ones.

    Members are sorted by name, numbers by value.
    """
    roots: list[ResourceNode] = []
    by_stack: dict[str, list[ResourceNode]] = {}
    for one in resources:
        node = _node(one)
        by_stack.setdefault(node.stack_path, []).extend((node, *_old(one)))
    nested = {node.nested_path for nodes in by_stack.values() for node in nodes if node.nested_path}
    for stack, nodes in by_stack.items():
        if stack not in nested:
            roots += nodes
    _attach(roots, by_stack, ())
    return roots


def _attach(nodes: list[ResourceNode], by_stack: dict[str, list[ResourceNode]], above: tuple[str, ...]) -> None:
    nodes.sort(key=lambda node: (not node.name.isdecimal(), int(node.name) if node.name.isdecimal() else 0, node.name))
    for node in nodes:
        node.path = (*above, node.physical_id if node.is_old else node.name)
        node.members = by_stack.get(node.nested_path, []) if node.nested_path else []
        _attach(node.members, by_stack, node.path)


def _node(one: JsonMap) -> ResourceNode:
    name = text(one.get("resource_name"))
    return ResourceNode(
        name=name,
        path=(name,),
        type=text(one.get("resource_type")),
        status=text(one.get("resource_status")),
        reason=text(one.get("resource_status_reason")),
        physical_id=text(one.get("physical_resource_id")),
        updated=text(one.get("updated_time")),
        required_by=[text(other) for other in _items(one)],
        stack_path=stack_path(href(one.get("links"), "stack")),
        nested_path=stack_path(href(one.get("links"), "nested")),
        health=as_map(one.get("health")),
        is_protected=one.get("protection") is not None,
    )


def _old(one: JsonMap) -> Iterator[ResourceNode]:
    """Yield the old objects of a resource that the API can show."""
    for old in as_maps(one.get("left_over")):
        if old.get("physical_resource_id"):
            name = f"{text(one.get('resource_name'))} (old object)"
            yield replace(_node({**old, "links": one.get("links")}), name=name, nested_path="", is_old=True)


def _items(one: JsonMap) -> Sequence[str]:
    return as_texts(one.get("required_by"))


def stack_path(url: str) -> str:
    """Return the path of a stack below its project, from its URL."""
    _, mark, rest = url.partition("/stacks/")
    return mark + "/".join(rest.split("/")[:2]) if mark else ""


class Row(Struct, frozen=True):
    """A line of the table of resources."""

    node: ResourceNode
    depth: int
    is_open: bool
    """True if its members follow."""


def rows(nodes: Sequence[ResourceNode], toggled: frozenset[str], depth: int = 0) -> Iterator[Row]:
    """Yield the lines of a table.

    `toggled` are resources that are not as at first: folded if large.
    """
    for node in nodes:
        is_open = bool(node.members) and (len(node.members) <= FOLDED_ABOVE) != (node.key in toggled)
        yield Row(node, depth, is_open)
        if is_open:
            yield from rows(node.members, toggled, depth + 1)


MOST_ROWS = 300
"""Rows of a table; above it only failures."""


def shortened(found: Sequence[Row]) -> list[Row]:
    """Return the first rows of a table, and all failures."""
    return [row for at, row in enumerate(found) if at < MOST_ROWS or row.node.is_bad or row.node.bad_below]


MOST_DRAWN = 300
"""Resources that a graph shows; above it only failures and their neighbours."""


def graph(nodes: Sequence[ResourceNode], toggled: frozenset[str]) -> JsonMap:
    """Return nodes and edges to draw. Folded nested stacks are one node."""
    shown = list(rows(nodes, toggled))
    is_part = len(shown) > MOST_DRAWN
    if is_part:
        bad = {row.node.key for row in shown if row.node.is_bad or row.node.bad_below}
        near = {_beside(row.node, name) for row in shown if row.node.key in bad for name in row.node.required_by}
        near |= {row.node.key for row in shown if any(_beside(row.node, name) in bad for name in row.node.required_by)}
        shown = [row for row in shown if row.node.key in bad | near][:MOST_DRAWN]
    drawn = {row.node.key for row in shown}
    edges = [
        [row.node.key, _beside(row.node, name)]
        for row in shown
        for name in row.node.required_by
        if _beside(row.node, name) in drawn
    ]
    above = {row.node.key: "/".join(row.node.path[:-1]) for row in shown if row.depth}
    edges += [[parent, key] for key, parent in above.items() if parent in drawn]
    return {"nodes": [_drawn(row) for row in shown], "edges": edges, "part": is_part}


def _beside(node: ResourceNode, name: str) -> str:
    return "/".join((*node.path[:-1], name))


def _state(node: ResourceNode) -> str:
    """Return the state for a graph: ``unhealthy``, ``unmade`` or ``complete``, say."""
    if node.health.get("state") == "unhealthy":
        return "unhealthy"
    return "unmade" if node.status == "INIT_COMPLETE" else node.status.rpartition("_")[2].lower()


def _drawn(row: Row) -> JsonMap:
    node = row.node
    return {
        "id": node.key,
        "name": node.name,
        "type": node.type,
        "status": node.status,
        "state": _state(node),
        "folded": 0 if row.is_open else sum(1 for one in node.walk()) - 1,
        "bad": node.bad_below if not row.is_open else 0,
    }
