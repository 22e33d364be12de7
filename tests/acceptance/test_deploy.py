"""The files of ``deploy``: what reads them accepts them.

tests/services runs their start commands.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from heatlite.core.config import OTHER_VARIABLES, Settings, all_values
from heatlite.feature import installed

from .processes import ROOT

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
STARTED = {("db", "upgrade"), ("api",), ("worker",), ("serve",)}


def manifests() -> Iterator[dict[str, Any]]:
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text())


def pods() -> dict[str, Any]:
    with_pods = [one for one in manifests() if one["kind"] in ("Deployment", "Job")]
    return {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in with_pods}


def needs(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"needs {program}")
    return found


def accepted(*command: str | Path) -> str:
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_systemd_knows_every_line_of_the_units(tmp_path: Path) -> None:
    program = needs("systemd-analyze")
    for unit in UNITS:
        text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(), flags=re.MULTILINE)
        (tmp_path / unit.name).write_text(text)
    ran = subprocess.run([program, "verify", *tmp_path.iterdir()], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.slow
def test_kustomize_makes_the_manifests() -> None:
    made = accepted(needs("kubectl"), "kustomize", DEPLOY / "kubernetes")
    kinds = sorted(one["kind"] for one in yaml.safe_load_all(made))
    assert kinds == ["ConfigMap", "Deployment", "Deployment", "Job", "Namespace", "Service"]


def test_prometheus_reads_its_file(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "prometheus.yml", tmp_path)
    shutil.copy(ROOT / "templates" / "healing" / "alerts.yml", tmp_path)
    accepted(needs("promtool"), "check", "config", tmp_path / "prometheus.yml")


def test_names_in_the_compose_file_are_there() -> None:
    services = COMPOSE["services"]
    for name, service in services.items():
        assert "image" in service, name
        for other, waits in service.get("depends_on", {}).items():
            assert other in services, name
            assert waits["condition"] != "service_healthy" or "healthcheck" in services[other], other
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            is_there = source in COMPOSE["volumes"] if "/" not in source else (DEPLOY / source).exists()
            assert is_there or source == "./config", volume


def test_their_variables_are_settings() -> None:
    known = {f"HEATLITE_{name.upper()}" for name in all_values(Settings(database=""), installed)} | set(OTHER_VARIABLES)
    texts = [path.read_text() for path in DEPLOY.rglob("*") if path.is_file()]
    assert {name for text in texts for name in re.findall(r"HEATLITE_[A-Z_]+", text)} <= known


def test_pods_are_restricted() -> None:
    for name, pod in pods().items():
        assert pod["securityContext"]["runAsNonRoot"], name
        for container in pod["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False, name
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}, name


def test_the_start_commands_are_those_that_run() -> None:
    named = {tuple(service["command"]) for service in COMPOSE["services"].values() if "command" in service}
    named |= {tuple(container["args"]) for pod in pods().values() for container in pod["containers"]}
    units = [re.findall(r"^ExecStart=(\S+) (\S+)", unit.read_text(), re.MULTILINE)[0] for unit in UNITS]
    named |= {(command,) for program, command in units if program.endswith("/heatlite")}
    last = re.findall(r"^CMD (.*)$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)
    named |= {tuple(json.loads(last[0]))}
    assert named == STARTED
    assert ("/usr/local/bin/heatlite-agent", "run") in units  # tests/agent runs it
