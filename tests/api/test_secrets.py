"""Credentials of callers, stored and shown nowhere, and keys of what is."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from heatlite import administration, wiring
from heatlite.core.config import BadSetting, Settings
from heatlite.core.context import Context
from heatlite.core.status import LIVE_ACTIONS
from heatlite.serving import preflight
from heatlite.store.admin.rotation import RotationResult
from heatlite.store.errors import UnreadableSecret
from heatlite.store.records import ActionRecord
from heatlite.store.secrets.cipher import new_key
from heatlite.store.store import Store
from tests.api.conftest import Heat, template
from tests.databases import sqlite
from tests.waiting import eventually

TOKEN, PASSWORD = "open-sesame-7f3a", "söme pässword 9c1d"
SENT = {"X-Auth-Token": TOKEN, "X-Auth-User": "mia", "X-Auth-Key": PASSWORD}

ENDLESS = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"create": -1}}}
TREE = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": ENDLESS}}


def test_a_context_does_not_show_its_token() -> None:
    context = Context("demo", token="sesame")
    assert "sesame" not in f"{context!r} {context}"


@pytest.fixture
def server(own_server: wiring.Embedded) -> wiring.Embedded:
    """A server with a key and files of its own, whose actions are those of the test."""
    return own_server


@pytest.fixture
def heat(own_heat: Heat) -> Heat:
    """The project `demo` of `server`."""
    return own_heat


def actions(store: Store, live: bool = True) -> list[ActionRecord]:
    """All actions, or those that have not ended."""
    ids = [action_id for (action_id,) in store.database.read("SELECT id FROM action ORDER BY seq")]
    found = [action for action_id in ids if (action := store.actions.get(action_id)) is not None]
    return [action for action in found if not live or action.status in LIVE_ACTIONS]


def begin(heat: Heat, store: Store) -> str:
    """The path of a tree in creation, requested by an authenticated caller."""
    body = {"stack_name": "s", "template": template(group=TREE)}
    path = f"/stacks/s/{heat.call('POST', '/stacks', body, code=201, headers=SENT).json['stack']['id']}"
    eventually(lambda: len(actions(store)) == 2, "the group's own stack has no action")
    return path


def in_files(folder: Path, text: str) -> list[str]:
    """The files that have it in them, as it is, as JSON has it, or as HTTP does."""
    forms = {text.encode(), text.encode("latin-1"), json.dumps(text)[1:-1].encode()}
    return [file.name for file in folder.iterdir() if any(form in file.read_bytes() for form in forms)]


def test_it_lies_in_no_file(heat: Heat, store: Store, tmp_path: Path) -> None:
    begin(heat, store)
    eventually(lambda: with_data(store), "nothing has begun")
    assert in_files(tmp_path, "fernet1"), "the rows are not in the files yet"
    for secret in (TOKEN, PASSWORD):
        assert in_files(tmp_path, secret) == []


@pytest.mark.slow
def test_it_shows_in_no_answer_and_no_log(heat: Heat, store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    path = begin(heat, store)
    said = []
    for method, url, body in (
        ("GET", "/stacks/detail?show_nested=true", None),
        ("GET", path, None),
        ("GET", f"{path}/environment", None),
        ("GET", f"{path}/export", None),
        ("GET", f"{path}/events?nested_depth=5", None),
        ("GET", f"{path}/resources?nested_depth=5&with_detail=true", None),
        ("GET", "/actions", None),
        ("GET", "/services", None),
        ("PUT", path, {"template": template()}),  # refused: something is in progress
        ("POST", "/stacks", {"stack_name": "!"}),
        ("POST", f"{path}/actions", {"lock": None}),
        ("GET", "/nowhere", None),
    ):
        answer = heat.call(method, url, body, headers=SENT)
        said.append(f"{answer.headers} {answer.text}")
    heat.call("DELETE", path, code=204, headers=SENT)
    heat.settle(path, "DELETE_COMPLETE")
    said += [heat.call("GET", f"{path}/events").text, caplog.text, *(repr(action) for action in actions(store, False))]
    for secret in (TOKEN, PASSWORD, json.dumps(PASSWORD)[1:-1]):
        assert not [text for text in said if secret in text]


# -- keys and library ------------------------------------------------------------------------------


@pytest.fixture
def rotating(tmp_path: Path) -> Iterator[tuple[str, str, str]]:
    """A stack in creation on a stopped server's database: URL, key and another key."""
    url, key = sqlite(tmp_path), new_key()
    server = wiring.embedded(Settings(database=url, encryption_keys=(key,)))
    try:
        begin(Heat(server.app), server.store)
        eventually(lambda: with_data(server.store), "nothing has begun")
    finally:
        server.close()
    yield url, key, new_key()


def with_data(store: Store) -> list[tuple[str, str]]:
    """The ids of resources with stored data, which is always encrypted, and the data."""
    return [*store.database.read("SELECT id, data FROM resource WHERE data <> '{}' ORDER BY id")]


def test_keys_are_changed(rotating: tuple[str, str, str]) -> None:
    url, old, new = rotating
    settings = Settings(database=url, encryption_keys=(new, old))
    store = Store.open(url, (old,))
    rows = len(with_data(store))
    store.encryption.check()
    assert administration.reencrypt(settings) == RotationResult(rows)
    with pytest.raises(UnreadableSecret):
        store.encryption.check()
    store.close()


@pytest.mark.slow
def test_what_no_key_opens_is_named_and_left(rotating: tuple[str, str, str]) -> None:
    url, _, new = rotating
    store = Store.open(url)
    before = with_data(store)
    assert administration.reencrypt(Settings(database=url, encryption_keys=(new,))) == RotationResult(
        0, [f"resource {key}" for key, _ in before]
    )
    assert with_data(store) == before
    store.close()


WITHOUT = """
import logging, sys
sys.modules["cryptography"] = None
logging.basicConfig(format="%(levelname)s %(message)s")
from heatlite import administration, wiring
from heatlite.serving import preflight
from heatlite.core.config import Settings
from tests.api.conftest import Heat, template, value
server = wiring.embedded(Settings(database=sys.argv[1]), url="http://127.0.0.1:8004")
heat = Heat(server.app)
body = {"stack_name": "s", "template": template(v=value())}
stack = heat.call("POST", "/stacks", body, code=201, headers={"X-Auth-Token": "sesame"}).json["stack"]
heat.settle(f"/stacks/s/{stack['id']}", "CREATE_COMPLETE")
body["template"] = template(slow={"type": "OS::Heat::TestResource", "properties": {"wait_secs": -1}})
heat.call("POST", "/stacks", {**body, "stack_name": "t"}, code=201, headers={"X-Auth-Token": "sesame"})
server.close()
"""


@pytest.mark.slow
def test_without_the_library_nothing_is_stored_and_all_works(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT, sqlite(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=240, check=True)
    assert done.stderr.count("WARNING") == 1
    assert "WARNING Secrets cannot be encrypted" in done.stderr
    assert not (tmp_path / "heatlite.key").exists()
    assert in_files(tmp_path, "sesame") == []


def test_a_server_with_a_bad_key_does_not_start(tmp_path: Path) -> None:
    settings = Settings(database=sqlite(tmp_path), port=0, encryption_keys=("sesame",))
    with pytest.raises(BadSetting, match="encryption_keys: key 1 of 1 is not 32 bytes"):
        preflight.check_servable(settings)
