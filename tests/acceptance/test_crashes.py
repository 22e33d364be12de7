"""kill -9 of the worker and of all processes during a create with real objects."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.processes import Server
from tests.tables import sampled
from tests.waiting import eventually

pytestmark = pytest.mark.slow

FILES = 12
TEMPLATE = {
    "heat_template_version": "2021-04-16",
    "resources": {
        **{
            f"file_{number}": {
                "type": "Example::Local::File",
                "properties": {"content": f"c{number}", "slow_secs": 0.05},
                **({"depends_on": f"file_{number - 4}"} if number >= 4 else {}),
            }
            for number in range(FILES)
        },
        "sum": {"type": "OS::Heat::Value", "properties": {"value": {"get_attr": ["file_11", "path"]}}},
    },
    "outputs": {"last": {"value": {"get_attr": ["sum", "value"]}}},
}


def made(files: Path) -> list[str]:
    """The files there are."""
    return sorted(str(path) for path in files.iterdir() if path.name != "journal")


def check_whole(server: Server, path: str) -> None:
    """Every resource has one file, every file a resource, and none was made twice."""
    assert server.settled(path) == "CREATE_COMPLETE"
    files = server.home / "files"
    owned = sorted(found for name, found in server.resources(path).items() if name != "sum")
    assert len(owned) == FILES
    assert made(files) == owned
    journal = (files / "journal").read_text().split()
    assert len(journal) == len(set(journal))
    states = {one["resource_status"] for one in server.listed(path, "resources")}
    assert states == {"CREATE_COMPLETE"}
    assert server.request("GET", f"{path}/outputs/last").data["output"]["output_value"] in owned  # type: ignore[index]


def check_removed(server: Server, path: str) -> None:
    assert server.request("DELETE", path).status == 204
    assert server.settled(path) == "DELETE_COMPLETE"
    assert made(server.home / "files") == []


@pytest.mark.parametrize("after", sampled([0, 2, 5, 9], 2, pytest.mark.thorough))
def test_everything_is_killed(serve: Callable[[], Server], tmp_path: Path, after: int) -> None:
    """After so many files."""
    server = serve()
    path = server.create("crash", TEMPLATE)
    eventually(lambda: len(made(tmp_path / "files")) >= after, f"{after} files are there")
    server.kill()
    again = serve()
    check_whole(again, path)
    check_removed(again, path)
    again.stop()


def test_the_worker_is_killed(serve: Callable[[], Server], tmp_path: Path) -> None:
    """The process that watches starts another one, again and again."""
    server = serve()
    path = server.create("crash", TEMPLATE)
    for after in (2, 7):
        eventually(lambda: len(made(tmp_path / "files")) >= after, f"{after} files are there")  # noqa: B023
        worker = server.worker()
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: server.worker() not in (0, worker) and server.healthy(), "another worker")  # noqa: B023
    check_whole(server, path)
    server.stop()


@pytest.mark.slow
def test_killed_while_it_deletes(serve: Callable[[], Server], tmp_path: Path) -> None:
    server = serve()
    path = server.create("crash", TEMPLATE)
    assert server.settled(path) == "CREATE_COMPLETE"
    assert server.request("DELETE", path).status == 204
    eventually(lambda: len(made(tmp_path / "files")) < FILES, "a file is gone")
    server.kill()
    again = serve()
    assert again.settled(path) == "DELETE_COMPLETE"
    assert made(tmp_path / "files") == []
    again.stop()
