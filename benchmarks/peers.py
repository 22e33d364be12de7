"""``python -m benchmarks.peers``: compare heatlite, Heat and Terraform, in turns.

Each creates, updates and deletes resources.

Heat is a running one, named by its address: the `noauth` pipeline, one API process and one engine worker. The resources
are `OS::Heat::Value`, for Terraform `terraform_data`, which needs no provider.
"""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.ports import free_port
from benchmarks.processes import Server, environment

CALLER = dict.fromkeys(("X-Auth-User", "X-Auth-Key", "X-Auth-Project", "X-Auth-Project-Id", "X-Tenant-Id"), "demo")
WAIT_SECONDS = 600.0

Measured = dict[str, float]


def template(count: int) -> dict[str, object]:
    """Return a template of independent values."""
    resources = {f"r{n}": {"type": "OS::Heat::Value", "properties": {"value": f"v{n}"}} for n in range(count)}
    return {"heat_template_version": "2018-08-31", "resources": resources}


class HeatApi:
    """The REST API of heatlite or Heat."""

    def __init__(self, port: int, count: int) -> None:
        self._port = port
        self._count = count
        self._number = 0

    def measure(self) -> Measured:
        """Return the seconds of each operation."""
        self._number += 1
        name = f"peer{self._number}-{os.getpid()}"
        body = {"stack_name": name, "template": template(self._count), "timeout_mins": 60, "disable_rollback": True}
        measured = {}
        began = time.perf_counter()
        stack = self._request("POST", "/stacks", body)["stack"]
        path = f"/stacks/{name}/{stack['id']}"
        self._wait(path, "CREATE_COMPLETE")
        measured["create"] = time.perf_counter() - began
        began = time.perf_counter()
        self._request("PUT", path, body)
        self._wait(path, "UPDATE_COMPLETE")
        measured["no-op update"] = time.perf_counter() - began
        began = time.perf_counter()
        self._request("DELETE", path)
        self._wait(path, "DELETE_COMPLETE")
        measured["delete"] = time.perf_counter() - began
        return measured

    def _wait(self, path: str, status: str) -> None:
        until = time.monotonic() + WAIT_SECONDS
        while (found := self._request("GET", path)["stack"]["stack_status"]) != status:
            if found.endswith("_FAILED") or time.monotonic() > until:
                raise RuntimeError(f"{path}: {found}")
            time.sleep(0.01)

    def _request(self, method: str, path: str, body: object = None) -> dict[str, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        data = None if body is None else json.dumps(body)
        connection.request(method, f"/v1/demo{path}", data, {**CALLER, "Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if method == "GET" and answer.status == 404:
            return {"stack": {"stack_status": "DELETE_COMPLETE"}}
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status}: {content[:300]!r}")
        return json.loads(content) if content.startswith(b"{") else {}


def terraform(program: str, folder: Path, count: int) -> Measured:
    """Return the seconds of each command of Terraform, with its start."""
    text = f'resource "terraform_data" "r" {{\n  count = {count}\n  input = "v${{count.index}}"\n}}\n'
    (folder / "main.tf").write_text(text)
    subprocess.run([program, "init", "-no-color"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    measured = {}
    for name, words in (("create", "apply"), ("no-op update", "apply"), ("delete", "destroy")):
        began = time.perf_counter()
        command = [program, words, "-auto-approve", "-no-color"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        measured[name] = time.perf_counter() - began
    return measured


@contextmanager
def heatlite(folder: Path, count: int) -> Iterator[HeatApi]:
    """Run `heatlite serve` on a new SQLite database."""
    port = free_port()
    command = [sys.executable, "-m", "heatlite", "serve", "--port", str(port)]
    with Server(command, port, folder, "/healthcheck"):
        yield HeatApi(port, count)


def command_line(folder: Path, count: int) -> Measured:
    """Return the seconds of `heatlite up`, again and `down` without a server."""
    file = folder / "peers.yaml"
    file.write_text(json.dumps(template(count)))
    measured = {}
    words = {
        "create": ["up", "--yes", str(file)],
        "no-op update": ["up", "--yes", str(file)],
        "delete": ["down", "--yes", "peers"],
    }
    for name, given in words.items():
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "heatlite", *given], env=environment(folder), check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        measured[name] = time.perf_counter() - began
    return measured


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--heat", type=int, metavar="PORT", help="port of Heat's API on this machine")
    parser.add_argument("--terraform", metavar="PROGRAM", help="terraform or tofu")
    parser.add_argument("--count", type=int, default=100, help="resources (default: 100)")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    samples: dict[str, list[Measured]] = {}
    with ExitStack() as held:
        folders = [Path(held.enter_context(tempfile.TemporaryDirectory())) for _ in range(3)]
        programs: dict[str, Callable[[], Measured]] = {
            "heatlite serve": held.enter_context(heatlite(folders[0], given.count)).measure,
            "heatlite up": lambda: command_line(folders[1], given.count),
        }
        if given.heat:
            programs["Heat"] = HeatApi(given.heat, given.count).measure
        if given.terraform:
            subprocess.run([given.terraform, "version"], check=True)
            programs["Terraform"] = lambda: terraform(given.terraform, folders[2], given.count)
        for _ in range(given.repeat):
            for name, run in programs.items():
                samples.setdefault(name, []).append(run())
    print(report(samples, given.count))


def report(samples: Mapping[str, list[Measured]], count: int) -> str:
    """Return the medians, with the least and the greatest, as a table in Markdown."""
    rows = [f"| | {' | '.join(samples)} |", "|---" * (len(samples) + 1) + "|"]
    for operation in ("create", "no-op update", "delete"):
        cells = []
        for runs in samples.values():
            values = [run[operation] for run in runs]
            cells.append(f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})")
        rows.append(f"| {operation} {count} resources, s | {' | '.join(cells)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
