"""Kills of an API process at each write of an import, a detachment and a move."""

import json
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from heatlite.core.json import as_map
from heatlite.store.records import StackRecord
from tests.api.conftest import template
from tests.crash.api_victim import ask
from tests.crash.test_every_write_of_the_api import MAX_WRITES, Servers, find
from tests.crash.victim import SURVIVED
from tests.databases import MEMORY
from tests.processes import fresh

NET = "OS::Neutron::Net"
THOROUGH = pytest.mark.thorough


INNER = "file:///inner.yaml"


def seen(servers: Servers, stack: StackRecord) -> tuple[dict[str, str | None], list[str], str]:
    """Return the objects of a tree, its defined resources, and its state."""
    store = servers.engine.store
    root = store.stacks.get(stack.id)
    assert root is not None
    rows, defined, states = dict[str, str | None](), set[str](), {str(root.status)}
    for now, path in ((root, ""), *((one, f"{one.parent_resource}/") for one in store.stacks.descendants(root))):
        rows |= {path + row.name: row.physical_id for row in store.resources.of(now.id)}
        defined |= {path + name for name in as_map(store.templates.get(now.template_id).document.get("resources"))}
        states.add(str(now.status))
    return rows, sorted(defined), " ".join(states)


@pytest.mark.slow
@pytest.mark.parametrize(
    "verb", ["elsewhere", "whole", *(pytest.param(one, marks=THOROUGH) for one in ("move", "import", "detach"))]
)
def test_killed_at_every_write(verb: str) -> None:
    """Rows and definition are as before or as after, and no object is touched."""
    processes = fresh("tests.crash.api_victim")
    with ExitStack() as ends:
        folder = Path(ends.enter_context(TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True)))
        (folder / "files").mkdir()
        servers = Servers(folder, ends, "simulated")
        cloud = servers.engine.components.engine_services.services.clouds.of("demo").cloud
        for writes in range(1, MAX_WRITES):
            name = f"s{writes}"
            given = {"net": {"type": NET, "properties": {"name": name}}, "own": {"type": "OS::Heat::Value"}}
            given["own"]["properties"] = {"value": "v"}
            files = {INNER: json.dumps(template(**given))}
            document = template(**given, data={"type": INNER})
            asked: Any = {"stack_name": name, "template": document, "files": files}
            assert servers.ask("POST", "/v1/demo/stacks", asked) == 201
            assert servers.ask("POST", "/v1/demo/stacks", {"stack_name": f"o{name}", "template": template()}) == 201
            servers.settle()
            stack, other = find(servers, name), find(servers, f"o{name}")
            assert stack is not None and other is not None
            path, whole = f"/v1/demo/stacks/{name}/{stack.id}", seen(servers, stack)
            target = aside = seen(servers, other)
            key, gone = whole[0]["net"], ("net", "data/net")
            asked = {"resources": [*gone]}
            left = {path: one for path, one in whole[0].items() if path not in gone}
            without = (left, sorted({*whole[1]} - {*gone}), "COMPLETE")
            before, after = whole, without
            if verb == "import":
                digest = servers.answer("PATCH", f"{path}/preview?plan=true", {"detach": asked})["plan"]["digest"]
                body = {"detach": {**asked, "plan_digest": digest}}
                assert servers.ask("POST", f"{path}/actions", body) == 200
                asked = {"resources": {path: {"type": NET, "id": whole[0][path]} for path in gone}}
                before, after = without, whole
            elif verb == "move":
                asked = {"moved": [{"from": "net", "to": "own"}, {"from": "own", "to": "net"}]}
                after = ({**whole[0], "own": key, "net": whole[0]["own"]}, *whole[1:])
            elif verb == "elsewhere":
                moved = [{"from": "net", "to": "net"}, {"from": "data/net", "to": "d"}]
                asked = {"moved": moved, "to_stack": other.name}
                target = ({"net": key, "d": whole[0]["data/net"]}, ["d", "net"], "COMPLETE")
            elif verb == "whole":
                asked = {"moved": [{"from": "data", "to": "data"}], "to_stack": other.name}
                there = {at: one for at, one in whole[0].items() if at.startswith("data")}
                target = (there, ["data", "data/net", "data/own"], "COMPLETE")
                after = ({at: one for at, one in whole[0].items() if at not in there}, ["net", "own"], "COMPLETE")
            assert seen(servers, stack) == before
            thing = cloud.call("network.get_network", key)
            operation = "move" if verb in ("elsewhere", "whole") else verb
            digest = servers.answer("PATCH", f"{path}/preview?plan=true", {operation: asked})["plan"]["digest"]
            body = {operation: {**asked, "plan_digest": digest}}
            arguments = (servers.database, str(servers.hints.folder), "POST", f"{path}/actions", body, writes)
            victim = processes.Process(target=ask, args=(*arguments, "simulated"))
            victim.start()
            victim.join(240)
            assert victim.exitcode in (-9, SURVIVED), f"write {writes}: exit code {victim.exitcode}"
            found = seen(servers, stack)
            assert (found, seen(servers, other)) in ((before, aside), (after, target)), f"write {writes}"
            if victim.exitcode == SURVIVED:
                assert found == after
            elif found == before:
                assert servers.ask("POST", f"{path}/actions", body) == 200, "the client asks again"
                assert (seen(servers, stack), seen(servers, other)) == (after, target)
            assert cloud.call("network.get_network", key) == thing
            for one in (stack, other):
                place = f"/v1/demo/stacks/{one.name}/{one.id}/preview?plan=true"
                shown = servers.answer("PATCH", place, {})["plan"]["resources"]
                assert [each["action"] for each in shown if each["action"] != "keep"] == []
            assert servers.engine.store.inconsistencies(servers.engine.components.clock.now(), 0.0) == []
            if victim.exitcode == SURVIVED:
                assert writes > 2
                return
    pytest.fail("the victim dies for ever")
