"""Values of hidden parameters are in no file, answer, event or log line."""

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from heatlite import administration, wiring
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.json import JsonMap
from heatlite.core.runtime.logs import CarryIds
from heatlite.engine.state.requests import StackRequest
from heatlite.serving import preflight
from heatlite.store.errors import MissingKey, UnreadableSecret
from heatlite.store.secrets.cipher import new_key
from tests.api.conftest import Heat, value
from tests.api.secret_history import HIDDEN, SECRET, History, environment, forms, found_in, template
from tests.databases import sqlite
from tests.waiting import eventually


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], str]]:
    """All that is logged, as a server writes it."""
    caplog.set_level(logging.DEBUG)
    carry = CarryIds()
    caplog.handler.addFilter(carry)
    yield lambda: caplog.text
    caplog.handler.removeFilter(carry)


def in_files(folder: Path, *secrets: str) -> list[str]:
    """All places that may hold a hidden value, as bytes."""
    contents = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    return [
        f"{secret} in {name}"
        for name, content in contents.items()
        for secret in secrets
        if any(form.encode() in content for form in forms(secret))
    ]


@pytest.mark.slow
def test_nothing_hidden_is_read_anywhere(tmp_path: Path, log: Callable[[], str]) -> None:
    server = wiring.embedded(Settings(database=sqlite(tmp_path), metrics=True))
    heat = Heat(server.app)
    path = History(heat).live()
    moves = [move["to"] for one in heat.get("/actions?limit=500")["actions"]
             for move in heat.get(f"/actions/{one['id']}/history")["history"]]  # fmt: skip
    assert "WAITING_LIFECYCLE_COMPLETION" in moves
    assert found_in(heat.app.get("/metrics").text) == []
    assert in_files(tmp_path, "fernet1:") != []
    assert in_files(tmp_path, *HIDDEN) == []
    assert "Value '******' is not an integer" in log() or "failed" in log()
    assert found_in(log()) == []
    heat.call("DELETE", path, code=204)
    heat.settle(path, "DELETE_COMPLETE")
    server.close()
    assert in_files(tmp_path, *HIDDEN) == []


def plain(secret: object = None) -> dict[str, object]:
    """A template with one parameter, which is hidden, or is not yet."""
    hidden = {} if secret is None else {"hidden": secret}
    parameters = {"secret": {"type": "string", **hidden}}
    return {
        "heat_template_version": "2021-04-16",
        "parameters": parameters,
        "resources": {"v": value({"get_param": "secret"})},
        "outputs": {"o": {"value": {"get_attr": ["v", "value"]}}},
    }


@pytest.mark.slow
def test_an_update_that_hides_something_seals_what_is_there(own_heat: Heat, tmp_path: Path) -> None:
    given = {"parameters": {"secret": SECRET}}
    path = own_heat.create(plain(), **given)
    assert in_files(tmp_path, SECRET) != []
    own_heat.call("PUT", path, {"template": plain(True), **given}, 202)
    own_heat.settle(path, "UPDATE_COMPLETE")
    store = administration.open_store(Settings(database=sqlite(tmp_path)))
    tables = [table for (table,) in store.database.read("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        assert found_in(repr(store.database.read(f'SELECT * FROM "{table}"'))) == [], table
    store.close()
    for event in own_heat.get(f"{path}/events")["events"]:
        shown = own_heat.get(f"{path}/resources/{event['resource_name']}/events/{event['id']}")["event"]
        assert set(shown["resource_properties"].values()) <= {"******"}
    # Its author wants the output to be seen.
    assert own_heat.get(f"{path}/outputs/o")["output"]["output_value"] == SECRET


def test_a_stack_with_nothing_hidden_is_in_clear(own_heat: Heat, tmp_path: Path) -> None:
    path = own_heat.create(plain(), parameters={"secret": "to be seen"})
    assert in_files(tmp_path, "fernet1:") == []
    (event, *_) = own_heat.get(f"{path}/resources/v/events")["events"]
    shown = own_heat.get(f"{path}/resources/v/events/{event['id']}")["event"]
    assert shown["resource_properties"] == {"value": "to be seen"}


@pytest.mark.slow
def test_keys_are_changed_under_a_stack_that_goes_on(tmp_path: Path) -> None:
    url, old, new = sqlite(tmp_path), new_key(), new_key()

    def settings(*keys: str) -> Settings:
        return Settings(database=url, encryption_keys=keys)

    server = wiring.embedded(settings(old))
    history = History(Heat(server.app))
    path = history.create("s", template(), ends="CREATE_COMPLETE", environment=environment())
    server.close()
    done = administration.reencrypt(settings(new, old))
    assert (done.unreadable, done.wiped) == ([], True)
    # Another key: nothing begins, and nothing is lost.
    for start in (wiring.embedded, wiring.api, preflight.check_servable):
        with pytest.raises(UnreadableSecret, match="encryption_keys lacks the key that encrypted it"):
            start(settings(old))
    reading = wiring.reader(settings(old))
    answer = Heat(reading.app).call("GET", path)
    assert (answer.status_int, answer.json["error"]["type"]) == (503, "UnreadableSecret")
    reading.close()
    server = wiring.embedded(settings(new))
    history = History(Heat(server.app))
    history.call("PATCH", path, {"environment": environment(wrong=True)}, 202)
    history.settle(path, "UPDATE_FAILED")
    history.look(path)
    history.call("DELETE", path, code=204)
    history.settle(path, "DELETE_COMPLETE")
    server.close()
    assert in_files(tmp_path, *HIDDEN) == []


@pytest.mark.slow
def test_keys_are_changed_while_an_operation_runs(tmp_path: Path) -> None:
    url, old, new = sqlite(tmp_path), new_key(), new_key()
    server = wiring.embedded(Settings(database=url, encryption_keys=(old,)))
    heat = Heat(server.app)
    endless = {"value": {"get_param": "secret"}, "action_wait_secs": {"create": -1}}
    waits = {"type": "OS::Heat::TestResource", "properties": endless}
    body = plain(True) | {"resources": {"v": value({"get_param": "secret"}), "waits": waits}, "outputs": {}}
    path = heat.create(body, wait=False, parameters={"secret": SECRET})
    begun = {("waits", "CREATE_IN_PROGRESS"), ("v", "CREATE_COMPLETE")}
    eventually(lambda: begun <= {(one["resource_name"], one["resource_status"])
                            for one in heat.get(f"{path}/resources")["resources"]})  # fmt: skip
    server.close()
    both = Settings(database=url, encryption_keys=(new, old), error_wait_time=0.1)
    server = wiring.embedded(both)
    heat = Heat(server.app)
    eventually(lambda: heat.get("/actions")["actions"][0]["status"] == "RUNNING")
    assert administration.reencrypt(both).unreadable == []
    body["resources"] = {"v": value({"get_param": "secret"})}
    heat.call("POST", f"{path}/actions", {"cancel_without_rollback": None})
    heat.settle(path, "CREATE_FAILED")
    heat.call("PUT", path, {"template": body, "parameters": {"secret": SECRET}}, 202)
    heat.settle(path, "UPDATE_COMPLETE")
    server.close()
    server = wiring.embedded(Settings(database=url, encryption_keys=(new,)))
    heat = Heat(server.app)
    assert heat.get(f"{path}/resources/v")["resource"]["attributes"] == {"value": "******"}
    heat.call("DELETE", path, code=204)
    heat.settle(path, "DELETE_COMPLETE")
    server.close()
    assert in_files(tmp_path, SECRET) == []


@pytest.mark.slow
def test_what_lay_in_clear_is_encrypted_with_the_first_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(database=sqlite(tmp_path))
    monkeypatch.setattr("heatlite.store.secrets.field_encryption.open_cipher", lambda *_: None)
    server = wiring.embedded(settings)
    path = Heat(server.app).create(plain(True), parameters={"secret": SECRET})
    server.close()
    assert in_files(tmp_path, SECRET) != []
    monkeypatch.undo()
    assert administration.reencrypt(settings).wiped
    assert in_files(tmp_path, SECRET) == []
    server = wiring.embedded(settings)
    assert Heat(server.app).get(f"{path}/outputs/o")["output"]["output_value"] == SECRET
    server.close()


@pytest.mark.slow
def test_whoever_is_not_alone_is_told_that_the_file_is_not_wiped(
    own_heat: Heat, own_server: wiring.Embedded, tmp_path: Path
) -> None:
    own_heat.create(plain(True), parameters={"secret": SECRET})
    # Somebody reads: what was written since is kept for him.
    own_server.store.database.read("BEGIN")
    own_server.store.database.read("SELECT 1 FROM stack")
    try:
        assert administration.reencrypt(Settings(database=sqlite(tmp_path))).wiped is False
    finally:
        own_server.store.database.read("ROLLBACK")


COMMANDS = """
import json, sys
from heatlite.__main__ import main
print([main(words) for words in json.loads(sys.argv[1])])
"""
"""Some command lines, one after another, and then their exit codes."""
WITHOUT = f"import sys; sys.modules['cryptography'] = None; {COMMANDS}"
"""The same where the library is not installed."""


@pytest.mark.slow
@pytest.mark.parametrize("code", [COMMANDS, WITHOUT])
def test_the_command_line_shows_nothing_with_and_without_the_library(tmp_path: Path, code: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    file = home / "s.yaml"
    file.write_text(json.dumps(plain(True) | {"outputs": {}}))
    environ = {"HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[2])}
    whole = [[*words, "--database", sqlite(tmp_path)] for words in (
        ("up", str(file), "-y", "--parameter", f"secret={SECRET}"), ("show", "s"), ("resources", "s"),
        ("events", "s"), ("ls",), ("action", "list"), ("up", str(file), "-y", "--parameter", f"secret={SECRET} again"),
    )]  # fmt: skip
    command = [sys.executable, "-W", "ignore", "-c", code, json.dumps(whole)]
    done = subprocess.run(
        command, cwd=home, env=environ, capture_output=True, text=True, timeout=240, input="yes\n", check=False
    )
    assert done.stdout.endswith(f"{[0] * len(whole)}\n"), done.stdout + done.stderr
    assert found_in(done.stdout + done.stderr) == []
    # Without it there is nothing to encrypt with, and all works as it is.
    assert in_files(tmp_path, SECRET) == ([] if code is COMMANDS else [f"{SECRET} in heat.db"])


def test_an_output_that_fails_does_not_tell_why_in_full(heat: Heat, log: Callable[[], str]) -> None:
    body = plain(True)
    joined = {"repeat": {"for_each": {"%x%": {"get_attr": ["v", "value"]}}, "template": "%x%"}}
    path = heat.create({**body, "outputs": {"o": {"value": joined}}}, parameters={"secret": SECRET})
    output = heat.get(f"{path}/outputs/o")["output"]
    assert output["output_value"] is None
    assert found_in(f"{output} {log()}") == []


def test_the_credential_of_a_stack_goes_with_it(heat: Heat, server: wiring.Embedded) -> None:
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": value()}}
    path = heat.create({"heat_template_version": "2021-04-16", "resources": {"group": group}})
    root = path.rpartition("/")[2]
    (child,) = (one["id"] for one in heat.get("/stacks?show_nested=true")["stacks"] if one["parent"])
    credentials = server.store.credentials
    with server.store.transaction():
        credentials.put(root, {"id": "an id", "secret": SECRET})
    heat.call("PATCH", path, {"template": {"heat_template_version": "2021-04-16"}}, 202)
    heat.settle(path, "UPDATE_COMPLETE")
    assert credentials.of(child) == credentials.of(root) == {"id": "an id", "secret": SECRET}
    heat.call("DELETE", path, code=204)
    heat.settle(path, "DELETE_COMPLETE")
    assert credentials.of(root) is None


def test_a_key_that_cannot_be_had_stops_a_server(tmp_path: Path) -> None:
    (tmp_path / "heatlite.key").mkdir()
    with pytest.raises(DatabaseUnavailable, match="the key file"):
        wiring.embedded(Settings(database=sqlite(tmp_path)))


def test_one_command_reads_the_key_with_its_first_secret(tmp_path: Path) -> None:
    key, settings = tmp_path / "heatlite.key", Settings(database=sqlite(tmp_path))
    sealed: JsonMap = {
        "heat_template_version": "2021-04-16",
        "parameters": {"p": {"type": "string", "hidden": True, "default": SECRET}},
        "resources": {"r": {"type": "OS::Heat::Value", "properties": {"value": {"get_param": "p"}}}},
    }
    with closing(wiring.embedded(settings, one_command=True)) as server:
        server.stacks.create(
            Context("demo"), StackRequest(name="open", template={"heat_template_version": "2021-04-16"})
        )
        assert not key.exists()
        server.stacks.create(Context("demo"), StackRequest(name="sealed", template=sealed))
        assert key.exists()
    key.unlink()
    with pytest.raises(MissingKey):
        wiring.embedded(settings, one_command=True)
