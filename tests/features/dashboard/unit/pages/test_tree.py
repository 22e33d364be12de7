"""The tree of resources, and the graph that is drawn of it."""


from msgspec.structs import replace

from heatlite.core.json import as_maps
from heatlite.features.dashboard.pages.tree import (
    FOLDED_ABOVE,
    MOST_DRAWN,
    MOST_ROWS,
    ResourceNode,
    graph,
    rows,
    shortened,
    tree,
)

NONE: frozenset[str] = frozenset()


def a_node(name: str, status: str = "CREATE_COMPLETE", *required_by: str) -> ResourceNode:
    return ResourceNode(name, (name,), "T", status, "", "", "", required_by, "/stacks/s/1", "", {}, False)


def test_a_large_graph_has_failures_and_their_neighbours() -> None:
    nodes = [a_node(f"n{number}") for number in range(MOST_DRAWN)]
    assert len(as_maps(graph(nodes, NONE)["nodes"])) == MOST_DRAWN
    nodes[5] = a_node("n5", "CREATE_COMPLETE", "n6")
    nodes[6] = a_node("n6", "CREATE_FAILED", "n7")
    drawn = graph([*nodes, a_node("last")], NONE)
    assert [one["id"] for one in as_maps(drawn["nodes"])] == ["n5", "n6", "n7"]
    assert (drawn["edges"], drawn["part"]) == ([["n5", "n6"], ["n6", "n7"]], True)


def test_a_large_table_has_its_begin_and_all_failures() -> None:
    nodes = [a_node(f"n{number:03}") for number in range(MOST_ROWS + 20)]
    assert shortened([*rows(nodes[:MOST_ROWS], NONE)]) == [*rows(nodes[:MOST_ROWS], NONE)]
    nodes[MOST_ROWS + 7].status = "CREATE_FAILED"
    group = replace(a_node("g"), members=[a_node("x", "CHECK_FAILED")])
    kept = [row.node.name for row in shortened([*rows([*nodes, group], NONE)])]
    assert kept == [*(node.name for node in nodes[:MOST_ROWS]), nodes[MOST_ROWS + 7].name, "g", "x"]


def test_a_large_group_is_folded_and_counts_its_failures() -> None:
    members = [replace(a_node(str(number)), path=("g", str(number))) for number in range(FOLDED_ABOVE + 1)]
    members[3].status = "CREATE_FAILED"
    group = replace(a_node("g"), members=members)
    assert [row.node.key for row in rows([group], NONE)] == ["g"]
    assert len([*rows([group], frozenset({"g"}))]) == FOLDED_ABOVE + 2
    (drawn,) = as_maps(graph([group], NONE)["nodes"])
    assert (drawn["folded"], drawn["bad"]) == (FOLDED_ABOVE + 1, 1)


def test_an_old_object_has_a_line_of_its_own() -> None:
    """Its link has its id in the cloud: the name leads to the current object."""
    links = [{"rel": "stack", "href": "http://h/v1/p/stacks/s/1"}]
    old = {"physical_resource_id": "gone", "resource_status": "DELETE_FAILED", "resource_type": "T"}
    a = {"resource_name": "a", "resource_status": "CREATE_COMPLETE", "links": links, "left_over": [old]}
    shown = [(row.node.name, row.node.key, row.node.is_bad) for row in rows(tree([a]), NONE)]
    assert shown == [("a", "a", False), ("a (old object)", "gone", True)]
