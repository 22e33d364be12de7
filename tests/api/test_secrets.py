"""Credentials of callers: stored encrypted for their actions, and shown nowhere."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from falcon import testing

from heatlite import administration, wiring
from heatlite.api.access.authentication import secrets_of
from heatlite.api.request import Request
from heatlite.core.config import BadSetting, Settings
from heatlite.core.context import Context
from heatlite.core.status import LIVE_ACTIONS
from heatlite.engine.admission.caller_context import restore_context
from heatlite.serving import preflight
from heatlite.store.admin.rotation import RotationResult
from heatlite.store.errors import UnreadableSecret
from heatlite.store.records import ActionRecord
from heatlite.store.secrets.cipher import Cipher, new_key, open_cipher
from heatlite.store.store import Store
from tests.api.conftest import Heat, template
from tests.databases import sqlite
from tests.waiting import eventually

TOKEN, PASSWORD = "open-sesame-7f3a", "söme pässword 9c1d"
SENT = {"X-Auth-Token": TOKEN, "X-Auth-User": "mia", "X-Auth-Key": PASSWORD}
KEPT = {"token": TOKEN, "username": "mia", "password": PASSWORD}

ENDLESS = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"create": -1}}}
TREE = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": ENDLESS}}


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({}, {}),
        ({"X_AUTH_TOKEN": "t"}, {"token": "t"}),
        ({"X_AUTH_USER": "mia", "X_AUTH_KEY": "p"}, {"username": "mia", "password": "p"}),
        ({"X_AUTH_TOKEN": "", "X_AUTH_KEY": "p", "X_REGION_NAME": ""}, {"password": "p"}),
    ],
)
def test_what_a_request_brings(headers: dict[str, str], found: dict[str, str]) -> None:
    env = testing.create_environ() | {f"HTTP_{name}": value for name, value in headers.items()}
    assert secrets_of(Request(env)) == found


def test_a_context_does_not_show_them() -> None:
    context = Context("demo", secrets={"password": "sesame"})
    assert "sesame" not in f"{context!r} {context}"


@pytest.fixture
def server(own_server: wiring.Embedded) -> wiring.Embedded:
    """A server with a key and files of its own, whose actions are those of the test."""
    return own_server


@pytest.fixture
def heat(own_heat: Heat) -> Heat:
    """The project `demo` of `server`."""
    return own_heat


@pytest.fixture
def cipher(server: wiring.Embedded, tmp_path: Path) -> Cipher:
    """The key of `server`'s secrets."""
    found = open_cipher((), tmp_path / "heat.db")
    assert found is not None
    return found


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


def test_it_lies_in_no_file_in_clear(heat: Heat, store: Store, cipher: Cipher, tmp_path: Path) -> None:
    begin(heat, store)
    assert in_files(tmp_path, "fernet1"), "the rows are not in the files yet"
    for secret in (TOKEN, PASSWORD):
        assert in_files(tmp_path, secret) == []


def test_every_action_of_the_tree_has_its_caller(heat: Heat, store: Store, cipher: Cipher) -> None:
    begin(heat, store)
    root, nested = actions(store)
    assert nested.parent_id == root.id
    for action in (root, nested):
        caller = restore_context(action, cipher)
        assert caller.secrets == KEPT
        assert caller == Context("demo", request_id=caller.request_id, secrets=KEPT)
        assert caller.request_id.startswith("req-")
    assert restore_context(nested, cipher) == restore_context(root, cipher)


def test_each_action_has_those_of_its_own_request(heat: Heat, store: Store, cipher: Cipher) -> None:
    stays = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"delete": -1}}}
    path = heat.create(template(one=stays))
    heat.call("DELETE", path, code=204, headers={"X-Auth-Token": "another"})
    (deleting,) = actions(store)
    assert restore_context(deleting, cipher).secrets == {"token": "another"}


def test_whoever_sends_nothing_leaves_nothing(heat: Heat, store: Store, cipher: Cipher) -> None:
    heat.create(template(group=TREE), wait=False)
    eventually(lambda: len(actions(store)) == 2, "the group's own stack has no action")
    for action in actions(store):
        assert action.secrets is None
        assert restore_context(action, cipher).secrets == {}


def test_it_is_erased_when_the_action_has_ended(heat: Heat, store: Store, cipher: Cipher) -> None:
    path = begin(heat, store)
    assert all(action.secrets for action in actions(store))
    heat.call("DELETE", path, code=204, headers=SENT)
    heat.settle(path, "DELETE_COMPLETE")
    ended = actions(store, live=False)
    assert {(action.verb, action.status) for action in ended} >= {("CREATE", "CANCELLED"), ("DELETE", "SUCCEEDED")}
    assert {action.secrets for action in ended} == {None}


def test_it_comes_back_after_a_restart_in_the_middle(heat: Heat, server: wiring.Embedded, tmp_path: Path) -> None:
    begin(heat, server.store)
    server.close()
    again = wiring.embedded(Settings(database=sqlite(tmp_path)))
    try:
        opened = open_cipher((), tmp_path / "heat.db")
        owner = again.worker.owner  # type: ignore[union-attr]
        eventually(lambda: all(action.owner == owner for action in actions(again.store)[1:]), "the engine goes on")
        assert [restore_context(action, opened).secrets for action in actions(again.store)] == [KEPT, KEPT]
    finally:
        again.close()


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


def with_data(store: Store) -> list[str]:
    """The ids of resources with stored data, which is always encrypted."""
    return [key for (key,) in store.database.read("SELECT id FROM resource WHERE data <> '{}' ORDER BY id")]


def test_keys_are_changed(rotating: tuple[str, str, str]) -> None:
    url, old, new = rotating
    store = Store.open(url)
    rows = len(actions(store)) + len(with_data(store))
    assert administration.reencrypt(Settings(database=url, encryption_keys=(new, old))) == RotationResult(rows)
    for action in actions(store):
        assert restore_context(action, Cipher([new], "")).secrets == KEPT
        with pytest.raises(UnreadableSecret):
            restore_context(action, Cipher([old], ""))
        with pytest.raises(UnreadableSecret):
            restore_context(action, None)
    store.close()


@pytest.mark.slow
def test_what_no_key_opens_is_named_and_left(rotating: tuple[str, str, str]) -> None:
    url, _, new = rotating
    store = Store.open(url)
    before = actions(store)
    assert administration.reencrypt(Settings(database=url, encryption_keys=(new,))) == RotationResult(
        0, [*(f"resource {key}" for key in with_data(store)), *(f"action {one.id}" for one in before)]
    )
    assert [action.secrets for action in actions(store)] == [action.secrets for action in before]
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
print(server.store.database.read("SELECT DISTINCT secrets FROM action"))
server.close()
"""


@pytest.mark.slow
def test_without_the_library_nothing_is_stored_and_all_works(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT, sqlite(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout == "[(None,)]\n"
    assert done.stderr.count("WARNING") == 1
    assert "WARNING Secrets cannot be encrypted" in done.stderr
    assert not (tmp_path / "heatlite.key").exists()
    assert in_files(tmp_path, "sesame") == []


def test_a_server_with_a_bad_key_does_not_start(tmp_path: Path) -> None:
    settings = Settings(database=sqlite(tmp_path), port=0, encryption_keys=("sesame",))
    with pytest.raises(BadSetting, match="encryption_keys: key 1 of 1 is not 32 bytes"):
        preflight.check_servable(settings)
