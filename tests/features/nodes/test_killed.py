"""A server that is killed between push and record."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.processes import Server
from tests.features.nodes.tiny_agent import TinyAgent
from tests.waiting import eventually

STACK = {"heat_template_version": "2021-04-16", "resources": {"a": {"type": "OS::Heat::DeployedServer"}}}


@pytest.mark.slow
def test_what_was_sent_before_a_kill_runs_once(tmp_path: Path) -> None:
    agent, server = TinyAgent(), Server(tmp_path)
    try:
        path = server.create("s", STACK)
        eventually(lambda: server.stack(path)["stack_status"] == "CREATE_COMPLETE", "the stack")
        metadata: Any = server.request("GET", f"{path}/resources/a/metadata").data
        register = metadata["metadata"]["heatlite_agent"]["register"]
        body = {
            "url": agent.url, "secret": agent.secret, "instance": agent.instance, "agent": "1", "kinds": agent.kinds
        }  # fmt: skip
        target = register[register.index("/v1/") :]
        assert server.request("PUT", target, body).status == 200

        def nodes() -> Any:
            return server.request("GET", f"{path}/nodes").data

        eventually(lambda: nodes()["nodes"][0]["state"] == "UP", "the node")
        pushes: list[str] = []

        def kills(method: str, path: str) -> None:
            if (method, path) == ("POST", "/v1/actions"):
                pushes.append(path)
                if len(pushes) == 1:
                    os.killpg(server.process.pid, signal.SIGKILL)

        agent.misbehaves = kills
        args = {"inputs": {"db_password": "hunter22222"}}
        asked = {"node": "a", "kind": "test/success", "args": args, "approval": "granted"}
        made: Any = server.request("POST", f"{path}/node_actions", asked).data
        own = made["node_action"]["id"]
        eventually(lambda: bool(pushes), "a push")
        server.kill()
        assert list(agent.actions) == [own], "the agent has it, and nobody has heard that"
        server = Server(tmp_path)

        def state() -> str:
            shown: Any = server.request("GET", f"/node_actions/{own}").data
            return str(shown["node_action"]["state"])

        server.request("POST", f"{path}/orchestrate")
        eventually(lambda: state() == "NEW", "the agent's word")
        agent.move(own, "RUNNING")
        agent.move(own, "DONE")
        assert server.request("POST", target).status == 202
        eventually(lambda: state() == "DONE", "the end")
        assert list(agent.actions) == [own]
        # An agent that says no, and repeats what it was given: no secret is told on, nor is there one in the log.
        agent.refuses = {"script": (400, "InvalidRequest")}
        refused: Any = server.request("POST", f"{path}/node_actions", {**asked, "kind": "script"}).data
        own = refused["node_action"]["id"]
        eventually(lambda: state() == "FAILED", "the refusal")
        told = json.dumps([server.request("GET", where).data for where in (f"/node_actions/{own}", f"{path}/events")])
        assert "no to {'inputs': {'db_password': '******'}}" in told
        log = server.log.read_text()
        assert f"node action {own}" in log
        for secret in ("hunter22222", agent.secret, target.partition("?")[2]):
            assert secret not in log + told
    finally:
        server.kill()
        agent.close()
