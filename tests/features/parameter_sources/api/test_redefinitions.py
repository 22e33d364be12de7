"""Readers of what a move removes or changes (law E7).

Of its own stack, of nested ones and of the other stack.
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from tests.api.conftest import Heat, template, value
from tests.features.parameter_sources.api.test_sources import read, source

Definition = dict[str, Any]


def low() -> Definition:
    outputs = {"told": {"value": {"get_attr": ["x", "value"]}}, "fixed": {"value": "f"}}
    return {**template(x=value("in x"), y=value()), "outputs": outputs}


def high() -> Definition:
    outputs = {
        "net": {"value": "a"},
        "told": {"value": {"get_attr": ["one", "value"]}},
        "below": {"value": {"get_attr": ["n", "told"]}},
        "deep": {"value": {"get_attr": ["n", "fixed"]}},
    }
    return {**template(one=value("in one"), two=value(), n={"type": "low.yaml"}), "outputs": outputs}


def other() -> Definition:
    outputs = {"net": {"value": "a"}, "told": {"value": {"get_attr": ["own", "value"]}}}
    return {**template(own=value("own")), "outputs": outputs}


def renamed(document: Definition, old: str, new: str) -> Definition:
    found: Definition = json.loads(json.dumps(document).replace(json.dumps(old), json.dumps(new)))
    return found


def edited(document: Definition, edit: str, output: str) -> Definition:
    """The document with an output removed or changed."""
    found = deepcopy(document)
    if edit == "removed":
        del found["outputs"][output]
    elif edit == "changed":
        found["outputs"][output] = {"value": "another"}
    return found


PLACES = ["root", "nested", "other"]


def move(place: str, edit: str, output: str) -> Definition:
    """The body of a move that also edits an output of its place."""
    if place == "root":
        return {
            "moved": [{"from": "one", "to": "three"}],
            "template": edited(renamed(high(), "one", "three"), edit, output),
            "files": {"low.yaml": json.dumps(low())},
        }
    if place == "nested":
        inner = edited(renamed(low(), "x", "z"), edit, output)
        above = {"told": "below", "fixed": "deep"}[output]
        outer = edited(high(), edit if edit == "removed" else "kept", above)
        return {
            "moved": [{"from": "n/x", "to": "n/z"}], "template": outer, "files": {"low.yaml": json.dumps(inner)},
        }  # fmt: skip
    left = high()
    moved = left["resources"].pop("two")
    entered = edited(other(), edit, output)
    entered["resources"]["two"] = moved
    return {
        "moved": [{"from": "two", "to": "two"}], "to_stack": "other", "template": left,
        "files": {"low.yaml": json.dumps(low())}, "to_definition": {"template": entered},
    }  # fmt: skip


def listed(shown: Any) -> Iterator[tuple[str, str]]:
    for one in shown.get("readers", ()):
        yield one["output"], one["effect"]


@pytest.fixture
def stacks(own_heat: Heat) -> tuple[Heat, str, str]:
    """A stack and another one, with readers of all outputs."""
    heat = own_heat
    base = heat.create(high(), "base", files={"low.yaml": json.dumps(low())})
    to = heat.create(other(), "other")
    names = ("net", "told", "below", "deep")
    read(heat, "r1", **{name: source("base", name) for name in names})
    read(heat, "r2", **{name: source("other", name) for name in ("net", "told")})
    return heat, base, to


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("edit", ["kept", "changed", "removed"])
@pytest.mark.parametrize("refuses", [False, True])
def test_a_move_names_who_reads(stacks: tuple[Heat, str, str], place: str, edit: str, refuses: bool) -> None:
    heat, base, to = stacks
    for path in (base, to):
        reads = "refuse" if refuses else "warn"
        heat.call("PUT", f"{path}/change_policy", {"change_policy": "2026-11-28", "reads": reads}, 200)
    output = {"root": "net", "nested": "fixed", "other": "told"}[place]
    body = move(place, edit, output)
    found = heat.call("PATCH", f"{base}/preview?plan=true", {"move": body}, 200).json["plan"]
    read_as = {"root": "net", "nested": "deep", "other": "told"}[place]
    expected = [] if edit == "kept" else [(read_as, edit)]
    shown = found["to_stack"] if place == "other" else found
    assert [*listed(shown)] == expected
    assert [*listed(found if place == "other" else {})] == []
    body["plan_digest"] = found["digest"]
    if refuses and edit == "removed":
        error = heat.call("POST", f"{base}/actions", {"move": body}, 409).json["error"]
        assert (error["type"], [*listed(error)]) == ("OutputInUse", expected)
        heat.call("POST", f"{base}/actions?force=true", {"move": body}, 200)
    else:
        heat.call("POST", f"{base}/actions", {"move": body}, 200)
