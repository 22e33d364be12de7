"""Kills of an API process at each write of an acceptance of drift."""

import json
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from heatlite.features.drift.store.store import DriftStore
from heatlite.store.records import StackRecord
from tests.api.conftest import template
from tests.crash.api_victim import ask
from tests.crash.test_every_write_of_the_api import MAX_WRITES, Servers, find
from tests.crash.victim import SURVIVED
from tests.databases import MEMORY
from tests.processes import fresh

NET, INNER = "OS::Neutron::Net", "file:///inner.yaml"


def seen(servers: Servers, stack: StackRecord) -> tuple[list[object], str, int]:
    """Return the stored names of networks, the definition, and how many are drifted."""
    store = servers.engine.store
    trees = [stack, *store.stacks.descendants(stack)]
    rows = [row for one in trees for row in store.resources.of(one.id) if row.type == NET]
    now = store.stacks.get(stack.id)
    assert now is not None
    known = store.templates.get(now.template_id)
    drifted = [one for one in store.of(DriftStore).of([row.id for row in rows]).values() if one.number]
    return [row.properties["name"] for row in rows], json.dumps([known.document, {**known.files}]), len(drifted)


@pytest.mark.slow
def test_killed_at_every_write() -> None:
    """Rows, definition and drift are as before or as after, and no object is touched."""
    processes = fresh("tests.crash.api_victim")
    with ExitStack() as ends:
        folder = Path(ends.enter_context(TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True)))
        (folder / "files").mkdir()
        servers = Servers(folder, ends, "simulated")
        cloud = servers.engine.components.engine_services.services.clouds.of("demo").cloud
        for writes in range(1, MAX_WRITES):
            name = f"s{writes}"
            given = {"net": {"type": NET, "properties": {"name": name}}}
            files = {INNER: json.dumps(template(**given))}
            asked: Any = {"stack_name": name, "template": template(**given, data={"type": INNER}), "files": files}
            assert servers.ask("POST", "/v1/demo/stacks", asked) == 201
            servers.settle()
            stack = find(servers, name)
            assert stack is not None
            for row in servers.engine.store.resources.of_tree(stack.id):
                if row.type == NET:
                    cloud.call("network.update_network", row.physical_id, name="other")
            path = f"/v1/demo/stacks/{name}/{stack.id}"
            assert servers.ask("POST", f"{path}/actions", {"check": None}) in (200, 201, 202)
            servers.settle()
            before = seen(servers, stack)
            assert (before[0], before[2]) == ([name, name], 2)
            digest = servers.answer("PATCH", f"{path}/preview?plan=true", {"accept_drift": {}})["plan"]["digest"]
            body = {"accept_drift": {"plan_digest": digest}}
            arguments = (servers.database, str(servers.hints.folder), "POST", f"{path}/actions", body, writes)
            victim = processes.Process(target=ask, args=(*arguments, "simulated"))
            victim.start()
            victim.join(240)
            assert victim.exitcode in (-9, SURVIVED), f"write {writes}: exit code {victim.exitcode}"
            found = seen(servers, stack)
            if found == before:
                assert victim.exitcode != SURVIVED
                assert servers.ask("POST", f"{path}/actions", body) == 200, "the client asks again"
                found = seen(servers, stack)
            assert (found[0], found[1].count("other"), found[2]) == (["other", "other"], 2, 0), f"write {writes}"
            assert {one["name"] for one in cloud.call("network.networks", name="other")} == {"other"}  # type: ignore[union-attr,index,call-overload]
            assert servers.engine.store.inconsistencies(servers.engine.components.clock.now(), 0.0) == []
            if victim.exitcode == SURVIVED:
                assert writes > 2
                return
    pytest.fail("the victim dies for ever")
