"""Kills of an API process at each write of an import, a detachment and a move."""

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from heatlite.store.records import StackRecord
from tests.api.conftest import template
from tests.crash.api_victim import ask
from tests.crash.test_every_write_of_the_api import MAX_WRITES, Servers, find
from tests.crash.victim import SURVIVED
from tests.databases import MEMORY
from tests.processes import fresh

NET = "OS::Neutron::Net"
THOROUGH = pytest.mark.thorough


def seen(servers: Servers, stack: StackRecord) -> tuple[dict[str, str | None], list[str], str]:
    """Return the objects of a stack, its defined resources, and its state."""
    now = servers.engine.store.stacks.get(stack.id)
    assert now is not None
    rows = {row.name: row.physical_id for row in servers.engine.store.resources.of(stack.id)}
    document = servers.engine.store.templates.get(now.template_id).document
    resources = document.get("resources")
    return rows, sorted(resources) if isinstance(resources, dict) else [], str(now.status)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["move", *(pytest.param(one, marks=THOROUGH) for one in ("import", "detach"))])
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
            assert servers.ask("POST", "/v1/demo/stacks", {"stack_name": name, "template": template(**given)}) == 201
            servers.settle()
            stack = find(servers, name)
            assert stack is not None
            path, whole = f"/v1/demo/stacks/{name}/{stack.id}", seen(servers, stack)
            key = whole[0]["net"]
            asked: Any = {"resources": ["net"]}
            without = ({"own": whole[0]["own"]}, ["own"], "COMPLETE")
            before, after = whole, without
            if verb == "import":
                digest = servers.answer("PATCH", f"{path}/preview?plan=true", {"detach": asked})["plan"]["digest"]
                body = {"detach": {**asked, "plan_digest": digest}}
                assert servers.ask("POST", f"{path}/actions", body) == 200
                asked = {"resources": {"net": {"type": NET, "id": key}}}
                before, after = without, whole
            elif verb == "move":
                asked = {"moved": [{"from": "net", "to": "own"}, {"from": "own", "to": "net"}]}
                after = ({"own": key, "net": whole[0]["own"]}, *whole[1:])
            assert seen(servers, stack) == before
            thing = cloud.call("network.get_network", key)
            digest = servers.answer("PATCH", f"{path}/preview?plan=true", {verb: asked})["plan"]["digest"]
            body = {verb: {**asked, "plan_digest": digest}}
            arguments = (servers.database, str(servers.hints.folder), "POST", f"{path}/actions", body, writes)
            victim = processes.Process(target=ask, args=(*arguments, "simulated"))
            victim.start()
            victim.join(240)
            assert victim.exitcode in (-9, SURVIVED), f"write {writes}: exit code {victim.exitcode}"
            found = seen(servers, stack)
            assert found in (before, after), f"write {writes}"
            if victim.exitcode == SURVIVED:
                assert found == after
            elif found == before:
                assert servers.ask("POST", f"{path}/actions", body) == 200, "the client asks again"
                assert seen(servers, stack) == after
            assert cloud.call("network.get_network", key) == thing
            shown = servers.answer("PATCH", f"{path}/preview?plan=true", {})["plan"]["resources"]
            assert [one["action"] for one in shown if one["action"] != "keep"] == []
            assert servers.engine.store.inconsistencies(servers.engine.components.clock.now(), 0.0) == []
            if victim.exitcode == SURVIVED:
                assert writes > 3
                return
    pytest.fail("the victim dies for ever")
