"""`heatlite db backup` beside a busy server, `heatlite db restore`, and the start."""

import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.acceptance.processes import CommandLine, Server, environment
from tests.databases import sqlite
from tests.waiting import PATIENCE, eventually

SECRET = {
    "heat_template_version": "2021-04-16",
    "parameters": {"word": {"type": "string", "hidden": True}},
    "resources": {
        "random": {"type": "OS::Heat::RandomString"},
        "kept": {"type": "OS::Heat::Value", "properties": {"value": {"get_param": "word"}}},
    },
    "outputs": {
        "word": {"value": {"get_attr": ["kept", "value"]}},
        "random": {"value": {"get_attr": ["random", "value"]}},
    },
}


def outputs(server: Server, path: str) -> list[object]:
    return [
        server.request("GET", f"{path}/outputs/{name}").data["output"]["output_value"]  # type: ignore[index]
        for name in ("word", "random")
    ]


@pytest.mark.slow
def test_a_backup_under_a_stream_of_creates_is_restored(
    heatlite: CommandLine, serve: Callable[[], Server], tmp_path: Path
) -> None:
    server = serve()
    database = f"sqlite:///{server.home / 'heatlite.db'}"
    made: list[str] = []
    enough = threading.Event()

    def create() -> None:
        while not enough.wait(0.1):
            word = {"word": f"sesame-{len(made)}"}
            made.append(server.create(f"s{len(made)}", SECRET, parameters=word))

    creation = threading.Thread(target=create)
    creation.start()
    try:
        while len(made) < 5:
            assert creation.is_alive()
        settled = [path for path in made[:3] if server.settled(path)]
        sure = len(made)
        copy = heatlite("db", "backup", "copy", "--database", database)
        assert (copy.code, copy.err) == (0, "")
        assert heatlite("db", "backup", "copy", "--database", database).code == 1, "it exists"
        while len(made) < sure + 5:
            assert creation.is_alive()
    finally:
        enough.set()
        creation.join()
    refused = heatlite("db", "restore", "copy", "--database", database)
    assert refused.code == 1
    assert "Another heatlite" in refused.err
    told = [outputs(server, path) for path in made if server.settled(path) == "CREATE_COMPLETE"]
    assert len(told) == len(made)
    server.stop()

    done = heatlite("db", "restore", "copy", "--database", database)
    assert done.code == 0, done.err
    assert done.err.startswith("Restored copy as ")
    (aside,) = [one for one in server.home.glob("heatlite.db.before-restore-*") if one.suffix != ".key"]
    assert str(aside) in done.err
    assert heatlite("fsck", "--database", f"sqlite:///{aside}").code == 0
    again = serve()
    listed = again.request("GET", "/stacks").data["stacks"]  # type: ignore[index]
    known = {one["stack_name"] for one in listed}
    assert {f"s{number}" for number in range(sure)} <= known
    assert len(known) < len(made)
    for number in range(len(known)):
        # What ran while the backup was made is carried out to its end.
        assert again.settled(made[number]) == "CREATE_COMPLETE"
        word, random = outputs(again, made[number])
        assert word == told[number][0]
        if number < len(settled):
            assert random == told[number][1]
    assert heatlite("fsck", "--database", database).code == 0


@pytest.mark.slow
def test_a_server_without_its_key_file_does_not_start_and_makes_no_other(
    heatlite: CommandLine, serve: Callable[[], Server]
) -> None:
    server = serve()
    path = server.create("s", SECRET, parameters={"word": "sesame"})
    server.settled(path)
    server.stop()
    key = server.home / "heatlite.key"
    content = key.read_bytes()
    key.unlink()
    database = f"sqlite:///{server.home / 'heatlite.db'}"
    refused = heatlite("serve", "--port", "0", "--database", database)
    assert refused.code != 0
    assert "heatlite.key is missing" in refused.err
    assert not key.exists()
    key.write_bytes(content)
    assert outputs(serve(), path)[0] == "sesame"


@pytest.mark.slow
def test_a_missing_folder_is_a_wrong_command_line(heatlite: CommandLine, tmp_path: Path) -> None:
    told = heatlite("db", "backup", "nowhere/copy", "--database", sqlite(tmp_path))
    assert (told.code, told.err) == (2, "heatlite: There is no folder nowhere. Create it, or choose another one.\n")


def open_files(process: int) -> str:
    """The paths of the open files of a process."""
    paths = []
    for one in Path("/proc", str(process), "fd").iterdir():
        with suppress(FileNotFoundError):
            paths.append(str(one.readlink()))
    return " ".join(paths)


@pytest.mark.slow
def test_a_backup_that_is_ended_leaves_no_file(tmp_path: Path) -> None:
    url = sqlite(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")  # so that the copy waits
        process = subprocess.Popen(
            [sys.executable, "-m", "heatlite", "db", "backup", str(out / "copy"), "--database", url],
            env=environment(tmp_path),
        )
        eventually(lambda: [*out.glob(".copy.key.*")] and ".copy." in open_files(process.pid))
        process.send_signal(signal.SIGTERM)
        other.rollback()
    assert process.wait(PATIENCE) == -signal.SIGTERM
    assert [*out.iterdir()] == []
