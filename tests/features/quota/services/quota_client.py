"""An API process that answers one request, at the same moment as others."""

import json
import os
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from webtest import TestApp

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.features.simulator.cloud import SimulatedCloud
from heatlite.features.simulator.feature import SimulatorSettings


def settings(database: str, simulation: str) -> Settings:
    """Return settings, and have servers of this process share a simulated cloud.

    Its objects are in a file beside the scenario, for all processes, whatever the database is.
    """
    shared = Path(simulation).with_name("cloud.db")
    wiring.cloud_provider = lambda given, _: SimulatedCloud(given, shared)
    return Settings(database=database, cloud="simulated", of_features=(SimulatorSettings(simulation=simulation),))


def ask(database: str, simulation: str, name: str, together: Barrier, answers: "Queue[tuple[str, int, str]]") -> None:
    """Create a stack with one network, once all processes are ready."""
    app = TestApp(wiring.api(settings(database, simulation)).app)
    net = {"type": "OS::Neutron::Net"}
    body = {"stack_name": name, "template": {"heat_template_version": "2021-04-16", "resources": {"net": net}}}
    together.wait()
    answer = app.post(
        "/v1/demo/stacks",
        json.dumps(body),
        headers={"Content-Type": "application/json", "Host": "localhost"},
        expect_errors=True,
    )
    found = answer.json
    answers.put((name, answer.status_int, found["error"]["type"] if "error" in found else ""))
    answers.close()
    answers.join_thread()
    os._exit(0)
