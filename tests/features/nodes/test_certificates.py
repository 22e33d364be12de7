"""Beyond loopback, agent and server prove themselves with certificates."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from heatlite import wiring
from heatlite.core.config import BadSetting, Settings
from heatlite.features.nodes.agents.client import Agents, NodeFault
from heatlite.features.nodes.feature import NodeSettings
from heatlite.features.nodes.states import NodeState
from heatlite.features.nodes.store.records import NodeRecord
from tests.agent.agents import Agent

pytest.importorskip("cryptography", reason="certificates are made with cryptography")
certificates = pytest.importorskip("tests.agent.certificates")

TLS = """
listen = "127.0.0.1:0"

[tls]
certificate = "{folder}/agent.pem"
key = "{folder}/agent.key"
authority = "{folder}/authority.pem"
"""


@pytest.mark.slow
def test_who_has_the_wrong_certificate_gets_no_answer_and_is_not_believed(tmp_path: Path) -> None:
    authority, stranger = (certificates.Authority(tmp_path, name) for name in ("authority", "stranger"))
    for name in ("agent", "server"):
        authority.certificate(name)
    stranger.certificate("strange")
    agent = Agent(tmp_path / "agent", settings=TLS.format(folder=tmp_path))
    agent.start()
    (started,) = [line for line in map(json.loads, agent.log().splitlines()) if line["event"] == "started"]
    url = started["url"]

    def given(files: Mapping[str, str]) -> NodeSettings:
        return NodeSettings(**{name: str(tmp_path / file) for name, file in files.items()})  # type: ignore[arg-type]

    def ask(**settings: str) -> Any:
        node = NodeRecord(
            "n", "s", "r", "p", "a", url, agent.secret, "", 0, "1", [], False, NodeState.UP, "", 1.0
        )
        with Agents(Settings(database="sqlite://", of_features=(given(settings),))).line(node) as line:
            return line.changes("", 0)

    ours = {"node_certificate": "server.pem", "node_key": "server.key", "node_authority": "authority.pem"}
    try:
        assert url.startswith("https://")
        assert ask(**ours).known == frozenset()
        with pytest.raises(NodeFault, match="certificate verify failed"):
            ask(**{**ours, "node_authority": "stranger.pem"})
        for strange in ({**ours, "node_certificate": "strange.pem", "node_key": "strange.key"}, {}):
            with pytest.raises(NodeFault):
                ask(**{"node_authority": "authority.pem", **strange})
    finally:
        assert agent.stop() == 0
    for wrong in ({**ours, "node_key": "agent.key"}, {**ours, "node_certificate": "nothing.pem"}):
        with pytest.raises(BadSetting, match="node_certificate"):
            wiring.embedded(Settings(database=f"sqlite:///{tmp_path / 'heat.db'}", of_features=(given(wrong),)))
