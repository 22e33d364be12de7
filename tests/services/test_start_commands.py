"""The start commands of ``deploy``, with the settings of its compose file."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.processes import Process, Server, Worker, environment
from tests.acceptance.test_deploy import COMPOSE
from tests.brokers import Broker
from tests.databases import on


@pytest.mark.parametrize("server", [on("PostgreSQL")], indirect=True)
@pytest.mark.parametrize("broker", [on("RabbitMQ")], indirect=True)
def test_the_start_commands_run(tmp_path: Path, url: str, broker: Broker) -> None:
    given = {name: value for name, value in COMPOSE["x-heatlite"]["environment"].items() if "{" not in value}
    given |= {"HEATLITE_BROKER": broker.url, "HEATLITE_QUEUE_PREFIX": broker.prefix, "HEATLITE_DATABASE": url}
    given |= {"HEATLITE_HOST": "127.0.0.1", "HEATLITE_METRICS_PORT": "0", "HEATLITE_TOKENS_FILE": f"{tmp_path}/tokens"}
    for command in (["user", "token", "ci", "--project", "demo=member"], ["db", "upgrade"]):
        program = [sys.executable, "-m", "heatlite", *command]
        subprocess.run(program, env=environment(tmp_path, **given), check=True, capture_output=True)
    started: list[Process] = []
    try:
        started += [Server(tmp_path, command=command, database=url, **given) for command in ("api", "serve")]
        started.append(Worker(tmp_path, url, **given))
    finally:
        for process in started:
            process.stop()
