"""A server whose setting `features` leaves nodes out."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from webtest import TestApp

from heatlite import wiring
from heatlite.administration import inconsistencies, open_store
from heatlite.core.config import Settings
from heatlite.features.nodes.states import NodeActionState, Requester
from heatlite.features.nodes.store.records import NodeActionRecord, NodePlaybookRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.admin.backup import backup, restore
from heatlite.store.errors import MissingKey, UnreadableSecret
from heatlite.store.secrets.cipher import new_key
from heatlite.store.writes.large_values import LARGE, LARGE_VALUE_GRACE
from tests.databases import sqlite


def test_it_has_no_route_work_or_store_of_nodes(tmp_path: Path) -> None:
    server = wiring.embedded(Settings(database=sqlite(tmp_path), features=("healing",)))
    try:
        for path in ("node_actions", "node_playbooks"):
            answer = TestApp(server.app).get(f"/v1/demo/{path}", status=404)
            assert "nodes" in answer.json["error"]["message"], "it says which feature is off"
        assert server.works == {}
        assert not any(isinstance(one, NodeStore) for one in server.store.features)
    finally:
        server.close()


def test_of_the_large_values_those_of_node_actions_stay(tmp_path: Path) -> None:
    settings = Settings(database=sqlite(tmp_path))
    used, unused = {"config": "x" * LARGE}, {"config": "y" * LARGE}
    done, gone = (
        NodeActionRecord(
            name, "acme", "s", "s", "n", "n", "script", args, "", NodeActionState.DONE, Requester.USER, "mia", 1.0, 1.0
        )
        for name, args in (("a", used), ("b", unused))
    )
    store = open_store(settings)
    with store.transaction():
        store.of(NodeStore).node_actions.insert_many([done, gone])
        store.of(NodeStore).node_actions.remove(["b"])
    store.close()
    store = open_store(replace(settings, features=()))
    for now in (10_000.0, 20_000.0):
        assert store.project_values.unchecked(now - LARGE_VALUE_GRACE, 9) == ["acme"]
        with store.transaction():
            store.project_values.check("acme", now)
    assert store.database.read("SELECT COUNT(*) FROM project_value") == [(1,)]
    store.close()
    store = open_store(settings)
    (kept,) = store.of(NodeStore).node_actions.existing(["a"])
    assert kept.args == used
    store.close()


def test_rows_of_removed_stacks_go(tmp_path: Path) -> None:
    settings = Settings(database=sqlite(tmp_path))
    store = open_store(settings)
    ran, other = (
        NodeActionRecord(
            name, "acme", name, name, "n", "n", "script", {}, "", NodeActionState.NEW, Requester.USER, "mia", 1.0, 1.0
        )
        for name in ("gone", "kept")
    )
    with store.transaction():
        store.of(NodeStore).node_actions.insert_many([ran, other])
    store.close()
    store = open_store(replace(settings, features=()))
    with store.transaction():
        store.stacks.remove(["gone"])
    assert store.features == []
    assert store.database.read("SELECT id FROM node_action") == [("kept",)]
    store.close()


@pytest.mark.parametrize(("state", "counts"), [(NodeActionState.NEW, False), (NodeActionState.DONE, True)])
def test_an_action_may_wait_for_an_action_on_a_node(state: NodeActionState, counts: bool, tmp_path: Path) -> None:
    settings = Settings(database=sqlite(tmp_path))
    store = open_store(settings)
    one = NodeActionRecord("n", "acme", "s", "s", "n", "n", "script", {}, "", state, Requester.USER, "mia", 1.0, 1.0)
    with store.transaction():
        store.of(NodeStore).node_actions.insert_many([one])
        store.database.write("INSERT INTO dependency VALUES (?, ?, ?, ?)", ("a", "n", "success", "open"))
    store.close()
    found = [one.id for one in inconsistencies(replace(settings, features=())) if one.entity == "dependency"]
    assert found == (["a"] if counts else [])


def with_a_playbook(folder: Path, keys: Sequence[str] = ()) -> str:
    """The URL of a database whose one secret is a playbook."""
    folder.mkdir(exist_ok=True)
    url = sqlite(folder)
    store = open_store(Settings(database=url, encryption_keys=tuple(keys)))
    with store.transaction():
        store.of(NodeStore).playbooks.put(NodePlaybookRecord("acme", "p", "stages: []", "mia", 1.0))
    store.close()
    return url


@pytest.mark.parametrize("features", [("healing",), None])
def test_no_key_is_made_in_place_of_that_of_a_playbook(features: tuple[str, ...] | None, tmp_path: Path) -> None:
    """A new key would open nothing once nodes are on again."""
    url = with_a_playbook(tmp_path)
    (tmp_path / "heatlite.key").unlink()
    store = open_store(Settings(database=url, features=features))
    with pytest.raises(MissingKey):
        store.encryption.encrypt("x")
    store.close()
    assert not (tmp_path / "heatlite.key").exists()


def test_a_restore_needs_the_key_of_a_playbook(tmp_path: Path) -> None:
    keys = (new_key(),)
    backup(with_a_playbook(tmp_path / "one", keys), keys, tmp_path / "copy", overwrite=False)
    target = f"sqlite:///{tmp_path}/two/heatlite.db"
    for others, error in (((new_key(),), UnreadableSecret), ((), MissingKey)):
        with pytest.raises(error):
            restore(target, others, tmp_path / "copy", force=False, off=(NodeStore,))
    assert restore(target, keys, tmp_path / "copy", force=False).installed
