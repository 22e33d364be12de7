"""Requests that grow: chains of resources, and floods of signals.

Whatever comes of one, no row, no answer and no mailbox holds more than its limit.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.json import dump
from heatlite.resources.heat.signals import handles
from tests.api.conftest import Heat, template, value
from tests.databases import sqlite

RESOURCE, STACK = 64 * 1024, 256 * 1024
SLACK: Final = 2
"""`core.json.size` is near the size of the text.

Small numbers and null count too high, escaped text too low.
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[wiring.Embedded]:
    server = wiring.embedded(Settings(sqlite(tmp_path), max_resource_data=RESOURCE, max_stack_data=STACK))
    yield server
    server.close()


class Chains:
    """Draws templates in which each resource is made of those before it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def template(self) -> Any:
        """One of up to 24 resources, with outputs."""
        drawn = {"r0": value(self._random.choice(("x" * 100, ["x"], {"k": "x"}, ["é\n", None, 1, {}])))}
        for number in range(1, self._random.randrange(8, 24)):
            made = value(self._of(list(drawn)))
            if self._random.random() < 0.2:
                made["metadata"] = {"m": self._of(list(drawn))}
            drawn[f"r{number}"] = made
        outputs = {f"o{number}": {"value": self._of(list(drawn))} for number in range(10)}
        return {**template(**drawn), "outputs": outputs}

    def _of(self, names: list[str]) -> Any:
        recent = names[-3:]
        parts = [self._reference(self._random.choice(recent)) for _ in range(self._random.choice((1, 2, 2, 3, 8)))]
        text = {"list_join": ["", [{"str_replace": {"template": "k k", "params": {"k": part}}} for part in parts]]}
        return self._random.choice(
            (
                parts,
                parts,
                {str(number): part for number, part in enumerate(parts)},
                [{"a": parts}, [[parts[0]]]],
                {"list_concat": [[part] for part in parts]},
                {"repeat": {"for_each": {"%i%": ["a", "b", "c"]}, "template": {"%i%": parts}}},
                text,
                {"yaql": {"expression": "[$.data, $.data]", "data": parts}},
                {"map_merge": [{f"k{number}": part} for number, part in enumerate(parts)]},
            )
        )

    def _reference(self, name: str) -> Any:
        return {"get_attr": self._random.choice(([name, "value"], [name, "value"], [name], [name, "value", 0]))}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("stacks", [1, pytest.param(3, marks=pytest.mark.thorough)])
def test_no_chain_grows_beyond_the_limits(server: wiring.Embedded, seed: int, stacks: int) -> None:
    heat, chains = Heat(server.app), Chains(seed)
    for number in range(stacks):
        path = heat.create(chains.template(), f"s{number}")
        rows = server.store.resources.of(path.rpartition("/")[2])
        sizes = [len(dump(row.properties)) + len(dump(row.metadata)) for row in rows]
        assert max(sizes) <= SLACK * RESOURCE
        assert sum(sizes) <= SLACK * STACK
        shown = heat.get(path)["stack"]["outputs"]
        assert sum(len(dump(output.get("output_value"))) for output in shown) <= SLACK * RESOURCE
        answer = heat.call("POST", "/stacks/preview", {"stack_name": "p", "template": heat.get(f"{path}/template")})
        assert answer.status_int in (200, 400)
        assert len(answer.body) <= SLACK * STACK + 2000 * len(rows)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_no_flood_of_signals_fills_the_disk(
    server: wiring.Embedded, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handles, "MAX_SIGNALS", 40)
    monkeypatch.setattr(handles, "MAX_STORED", 4 * RESOURCE)
    drawn, heat = random.Random(seed), Heat(server.app)
    kinds = ("OS::Heat::WaitConditionHandle", "AWS::CloudFormation::WaitConditionHandle")
    path = heat.create(template(**{f"h{number}": {"type": kind} for number, kind in enumerate(kinds)}))
    codes = set()
    for _ in range(150):
        data = drawn.choice(("x", "é", "\n")) * drawn.choice((0, 10, 1000, 60_000, 70_000))
        own = drawn.choice((None, drawn.randrange(60), "i" * drawn.choice((1, 255, 300))))
        if drawn.random() < 0.5:
            name, details = "h0", {"data": data, **({} if own is None else {"id": own})}
        else:
            name, details = "h1", {"Status": "SUCCESS", "Reason": "r", "Data": data, "UniqueId": str(own)}
        codes.add(heat.call("POST", f"{path}/resources/{name}/signal", details).status_int)
    assert codes == {200, 400}
    counted = "SELECT COUNT(*), SUM(LENGTH(content) + LENGTH(key)) FROM mail GROUP BY address"
    stored = server.store.database.read(counted)
    for count, size in stored:
        assert count <= 40
        assert size <= 4 * RESOURCE + 40 * 255
    shown = [heat.get(f"{path}/resources/h{number}/metadata")["metadata"] for number in range(2)]
    assert len(json.dumps(shown)) <= 6 * 2 * 4 * RESOURCE  # every character may be escaped
    ((events,),) = server.store.database.read("SELECT MAX(LENGTH(properties) + LENGTH(status_reason)) FROM event")
    assert events < 1000
