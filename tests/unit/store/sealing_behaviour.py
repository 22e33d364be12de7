"""Encryption on every database.

Test modules import these tests; they bring `store` and `url`.
"""

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from store_behaviour import (
    a_config,
    a_deployment,
    a_refusal,
    a_resource,
    a_snapshot,
    a_stack,
    an_action,
    an_event,
    insert,
)

from heatlite.core.actions.payloads import ActionData, ActionInputs, ActionOutputs, MemberChange
from heatlite.core.errors import NotFound, NotSupported
from heatlite.core.json import Json, JsonMap
from heatlite.core.redaction.masking import MASK
from heatlite.core.status import ActionStatus, Control
from heatlite.features.nodes.store.records import NodePlaybookRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.admin.rotation import RotationResult
from heatlite.store.errors import UnreadableSecret
from heatlite.store.records import AccountRecord, ActionRecord, StackRecord
from heatlite.store.secrets.cipher import new_key
from heatlite.store.store import Store
from heatlite.store.writes.large_values import LARGE, LARGE_VALUE_GRACE
from tests.databases import STORES, claim_one, dump

__all__: list[str] = []
"""Every test of this module, for `import *`."""

SECRET: JsonMap = {"password": "open sesame"}
INPUTS = ActionInputs(snapshot="open sesame")
DATA = ActionData(deletion=MemberChange.of(("open sesame",)))
OUTPUTS = ActionOutputs(error="open sesame")
OLD, NEW = new_key(), new_key()


def everywhere(test: Callable[..., None]) -> Callable[..., None]:
    __all__.append(test.__name__)
    return test


def keyed(url: str, *keys: str) -> Store:
    """The same database, as a process with these keys sees it."""
    return Store.open(url, keys, features=STORES)


def in_clear(store: Store, text: str = "sesame") -> list[str]:
    """The tables where it can be read."""
    return [table for table, rows in dump(store).items() if any(text in row for row in rows)]


def fill(store: Store, stack: StackRecord) -> ActionRecord:
    """Something in each table that may have a secret in it, all of them with the same."""
    config = a_config(config=SECRET)
    action = an_action(stack.id, inputs=INPUTS)
    with store.transaction():
        template_id = store.templates.put(SECRET, {"a.yaml": "sesame"}, sealed=stack.sealed)
        given = {"template_id": template_id, "environment": SECRET, "inherited": SECRET}
        stack = replace(stack, previous_template_id=template_id, previous_environment=SECRET, **given)  # type: ignore[arg-type]
        store.stacks.insert(stack)
        content = {"properties": SECRET, "metadata": SECRET, "data": SECRET, "token": SECRET}
        store.resources.insert_many([a_resource("one", stack_id=stack.id, **content), a_resource(stack_id=stack.id)])
        store.resources.save_many([replace(row, updated_at=1.0) for row in store.resources.of(stack.id)])
        store.events.append_many([an_event(stack_id=stack.id, properties=SECRET)])
        store.snapshots.insert(a_snapshot(stack_id=stack.id, data=SECRET))
        store.suppressed.add(a_refusal(stack_id=stack.id, body=SECRET), 1.0)
        store.messages.put("address", "key", SECRET, 1.0)
        store.messages.put("address", "key", [SECRET], 2.0)
        store.software_configs.insert(config)
        store.software_deployments.insert(a_deployment(config, input_values=SECRET, output_values=SECRET))
        store.of(NodeStore).playbooks.put(NodePlaybookRecord("acme", "p", "sesame", "mia", 1.0))
        store.queue.enqueue(action)
    claimed = claim_one(store, "me", 200.0, 30.0)
    assert claimed is not None
    with store.transaction():
        store.claims.begin_commit(claimed, 200.0, 30.0, DATA)
        store.moves.finish(claimed, ActionStatus.FAILED, "", 200.0, OUTPUTS)
    return action


def check_whole(store: Store, stack: StackRecord, action: ActionRecord) -> None:
    """All of it is there, and can be read."""
    found = store.stacks.get(stack.id)
    assert found is not None
    assert found.environment == found.previous_environment == found.inherited == SECRET
    template = store.templates.get(found.template_id)
    assert (template.document, template.files) == (SECRET, {"a.yaml": "sesame"})
    one, two = sorted(store.resources.of(stack.id), key=lambda row: -len(row.properties))
    assert one.properties == one.metadata == one.data == one.token == SECRET
    assert (two.properties, two.token) == ({}, None)
    assert store.resources.by_name(stack.id, ["one"]) == store.resources.find(stack.id, "one") == [one]
    (event,) = store.events.after(stack.id, 0, 10)
    assert event.properties == ({"password": MASK} if stack.sealed else SECRET)
    assert store.events.get(stack.id, str(event.id)) == event
    (snapshot,) = store.snapshots.of(stack.id)
    assert snapshot.data == SECRET
    (refusal,) = store.suppressed.list(stack.id)
    assert refusal.body == SECRET
    assert store.messages.read("address") == {"key": [SECRET]}
    (config,) = store.software_configs.of_server("acme", "web")
    assert config.config == SECRET
    (deployment,) = store.software_deployments.list("acme")
    assert deployment.input_values == deployment.output_values == SECRET
    playbook = store.of(NodeStore).playbooks.get("acme", "p")
    assert playbook is not None
    assert [playbook] == store.of(NodeStore).playbooks.list("acme")
    assert playbook.document == "sesame"
    done = store.actions.get(action.id)
    assert done is not None
    assert (done.inputs, done.data, done.outputs) == (INPUTS, DATA, OUTPUTS)
    assert [one.inputs for one in store.action_list.find("acme", action.id, 2)] == [INPUTS]


@everywhere
def test_of_a_sealed_stack_nothing_is_in_clear_and_all_comes_back(store: Store, url: str) -> None:
    mine, stack = keyed(url, OLD), a_stack(sealed=True)
    action = fill(mine, stack)
    assert in_clear(store) == []
    check_whole(mine, stack, action)
    mine.close()


@everywhere
def test_of_any_other_only_what_nobody_knows_is_encrypted(store: Store, url: str) -> None:
    mine, stack = keyed(url, OLD), a_stack()
    action = fill(mine, stack)
    assert in_clear(store) == ["template", "stack", "resource", "event", "action"]
    check_whole(mine, stack, action)
    mine.close()


@everywhere
def test_what_types_keep_is_always_encrypted(store: Store, url: str) -> None:
    """Without the key no engine starts; clear values are encrypted with the tree."""
    stack, mine, other = a_stack(), keyed(url, OLD), keyed(url, NEW)
    with mine.transaction():
        mine.stacks.insert(stack)
        mine.resources.insert_many([a_resource(stack_id=stack.id, data=SECRET)])
    assert in_clear(store) == []
    assert [row.data for row in mine.resources.of(stack.id)] == [SECRET]
    with pytest.raises(UnreadableSecret):
        other.encryption.check()
    with store.transaction():
        store.database.write("UPDATE resource SET data = '{\"password\":\"open sesame\"}'")
    assert (in_clear(store), [row.data for row in mine.resources.of(stack.id)]) == (["resource"], [SECRET])
    with mine.transaction():
        mine.seal_tree(stack)
    assert in_clear(store) == []
    for one in (mine, other):
        one.close()


@everywhere
def test_without_a_key_all_is_kept_as_it_is(store: Store, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heatlite.store.secrets.field_encryption.open_cipher", lambda *_: None)
    bare, stack = keyed(url), a_stack(sealed=True)
    action = fill(bare, stack)
    check_whole(bare, stack, action)
    with pytest.raises(NotSupported, match="encryption_keys"), bare.transaction():
        bare.credentials.put(stack.id, SECRET)
    with pytest.raises(NotSupported, match="encryption_keys"), bare.transaction():
        bare.accounts.insert(AccountRecord(stack.id, stack.id, "a", "s-a-x", "sesame"))
    assert "credential" not in in_clear(store)
    # Once there is a key, all of it is encrypted: the stack was known to have something in it.
    monkeypatch.undo()
    mine = keyed(url, OLD)
    check_whole(mine, stack, action)
    assert mine.reencrypt().unreadable == []
    assert in_clear(store) == []
    check_whole(mine, stack, action)
    for one in (bare, mine):
        one.close()


@everywhere
def test_what_looks_encrypted_and_is_not_is_kept_as_it_is(store: Store, url: str) -> None:
    mine, odd = keyed(url, OLD), {"fernet1:": "fernet1:x"}
    for sealed in (False, True):
        stack = a_stack(f"s{sealed}", sealed=sealed, environment=odd, status_reason="fernet1:x")
        insert(mine, stack)
        assert mine.stacks.get(stack.id) == stack
        with mine.transaction():
            mine.messages.put("address", f"{sealed}", "fernet1:x", 1.0)
    assert mine.messages.read("address") == {"False": "fernet1:x", "True": "fernet1:x"}
    mine.close()


@everywhere
def test_a_wrong_key_is_noticed_by_one_secret_among_rows_without(store: Store, url: str) -> None:
    right, wrong = keyed(url, OLD), keyed(url, NEW)
    with right.transaction():
        right.resources.insert_many([a_resource("a"), a_resource("b", data=SECRET), a_resource("c")])
    right.encryption.check()
    with pytest.raises(UnreadableSecret, match="encryption_keys lacks the key"):
        wrong.encryption.check()
    for one in (right, wrong):
        one.close()


@everywhere
def test_keys_are_changed_while_a_stack_is_there(store: Store, url: str) -> None:
    before, stack = keyed(url, OLD), a_stack(sealed=True)
    action = fill(before, stack)
    with before.transaction():
        before.credentials.put(stack.id, SECRET)
        before.accounts.insert(AccountRecord(stack.id, stack.id, "a", "s-a-x", "sesame"))
    both, after = keyed(url, NEW, OLD), keyed(url, NEW)
    check_whole(both, stack, action)
    with pytest.raises(UnreadableSecret, match="encryption_keys lacks the key"):
        after.encryption.check()
    done = both.reencrypt()
    assert done == RotationResult(rows=done.rows)
    # template, stack, resource, action, snapshot, suppressed, mail, config, deployment, playbook, credential,
    # account
    assert done.rows == 12
    after.encryption.check()
    check_whole(after, stack, action)
    assert after.credentials.of(stack.id) == SECRET
    assert after.accounts.passwords(stack.id) == ["sesame"]
    assert in_clear(store) == []
    with pytest.raises(UnreadableSecret):
        before.encryption.check()
    for one in (before, both, after):
        one.close()


@everywhere
def test_with_a_wrong_key_nothing_is_read_and_nothing_is_lost(store: Store, url: str) -> None:
    mine, wrong, stack = keyed(url, OLD), keyed(url, NEW), a_stack(sealed=True)
    action = fill(mine, stack)
    held = dump(store)
    for read in (
        lambda: wrong.stacks.get(stack.id),
        lambda: wrong.resources.of(stack.id),
        lambda: wrong.snapshots.of(stack.id),
        lambda: wrong.suppressed.list(stack.id),
        lambda: wrong.messages.read("address"),
        lambda: wrong.actions.get(action.id),
        lambda: wrong.software_deployments.list("acme"),
        lambda: wrong.of(NodeStore).playbooks.get("acme", "p"),
        wrong.encryption.check,
    ):
        with pytest.raises(UnreadableSecret, match="Add that key again"):
            read()
    done = wrong.reencrypt()
    assert (done.rows, len(done.unreadable)) == (0, 10)
    assert f"stack {stack.id}" in done.unreadable
    assert dump(store) == held
    check_whole(mine, stack, action)
    for one in (mine, wrong):
        one.close()


@everywhere
def test_a_tree_in_which_something_becomes_secret_is_sealed_whole(store: Store, url: str) -> None:
    mine, root, other = keyed(url, OLD), a_stack("root"), a_stack("other")
    child = a_stack("child", parent_id=root.id, root_id=root.id)
    for stack in (root, child, other):
        with mine.transaction():
            template_id = mine.templates.put({"of": stack.name, **SECRET}, {})
        insert(mine, replace(stack, template_id=template_id, environment=SECRET))
        with mine.transaction():
            mine.resources.insert_many([a_resource(stack_id=stack.id, properties=SECRET)])
            mine.events.append_many([an_event(stack_id=stack.id, properties=SECRET)])
    with mine.transaction():
        mine.seal_tree(child)
    tables = ("template", "stack", "resource", "event")
    rows = dump(store)
    assert [sum("sesame" in row for row in rows[table]) for table in tables] == [1, 1, 1, 1]
    for stack in (root, child):
        found = mine.stacks.get(stack.id)
        assert found is not None
        assert (found.sealed, found.environment) == (True, SECRET)
        # Whoever has read it before does not unseal it.
        with mine.transaction():
            mine.stacks.save(replace(stack, environment=SECRET))
            mine.resources.insert_many([a_resource("late", stack_id=stack.id, properties=SECRET)])
        assert [row.properties for row in mine.resources.of(stack.id)] == [SECRET, SECRET]
    rows = dump(store)
    assert [sum("sesame" in row for row in rows[table]) for table in tables] == [1, 1, 1, 1]
    mine.close()


@everywhere
def test_the_secret_of_a_sink_is_one_where_nothing_else_is_hidden(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"event_sinks": [{"type": "webhook", "target": "https://a.example", "secret": "sesame"}]}
    one, two = a_stack("one", environment=told), a_stack("two", previous_environment=told)
    mine = keyed(url, OLD)
    insert(mine, one, two)
    assert in_clear(store) == []
    assert (mine.stacks.get(one.id), mine.stacks.get(two.id)) == (one, two)
    monkeypatch.setattr("heatlite.store.secrets.field_encryption.open_cipher", lambda *_: None)
    bare, three = keyed(url), a_stack("three", environment=told)
    insert(bare, three)
    assert in_clear(store) == ["stack"]
    monkeypatch.undo()
    assert mine.reencrypt().rows == 3
    assert in_clear(store) == []
    assert mine.stacks.get(three.id) == three
    for each in (mine, bare):
        each.close()


@everywhere
def test_a_template_in_clear_is_encrypted_for_whom_it_is_a_secret(store: Store, url: str) -> None:
    mine = keyed(url, OLD)
    with mine.transaction():
        first = mine.templates.put(SECRET, {})
    assert in_clear(store) == ["template"]
    for sealed in (True, False):
        with mine.transaction():
            assert mine.templates.put(SECRET, {}, sealed=sealed) == first
        assert in_clear(store) == []
    assert mine.templates.get(first).document == SECRET
    mine.close()


@everywhere
def test_a_stack_that_another_process_has_sealed_is_sealed_here(store: Store, url: str) -> None:
    mine, other, stack = keyed(url, OLD), keyed(url, OLD), a_stack()
    insert(mine, stack)
    with mine.transaction():
        mine.resources.insert_many([a_resource(stack_id=stack.id)])
    with other.transaction():
        other.seal_tree(stack)
    with mine.transaction():
        mine.resources.save_many([replace(row, data=SECRET) for row in mine.resources.of(stack.id)])
    assert in_clear(store) == []
    for one in (mine, other):
        one.close()


@everywhere
def test_a_digest_tells_nothing_to_whom_has_no_key(store: Store, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def digest(*keys: str) -> str:
        one = keyed(url, *keys)
        try:
            return one.encryption.digest("sesame")
        finally:
            one.close()

    digests = {digest(*keys) for keys in ((OLD,), (OLD, NEW), (NEW,))}
    monkeypatch.setattr("heatlite.store.secrets.field_encryption.open_cipher", lambda *_: None)
    digests.add(digest())
    assert len(digests) == 3
    assert {len(one) for one in digests} == {64}


# -- credentials ---------------------------------------------------------------------------------


@everywhere
def test_a_tree_has_one_credential_which_leaves_through_one_door(store: Store, url: str) -> None:
    mine, root = keyed(url, OLD), a_stack("root")
    child = a_stack("child", parent_id=root.id, root_id=root.id, depth=1)
    insert(mine, root, child)
    assert mine.credentials.of(root.id) is None
    with mine.transaction():
        mine.credentials.put(child.id, {"trust_id": "first"})
        mine.credentials.put(root.id, SECRET)
    assert mine.credentials.of(root.id) == mine.credentials.of(child.id) == SECRET
    assert in_clear(store) == in_clear(store, "trust_id") == []
    assert "sesame" not in repr((mine.stacks.get(root.id), mine.stacks.get(child.id)))
    wrong = keyed(url, NEW)
    for read in (lambda: wrong.credentials.of(root.id), wrong.encryption.check):
        with pytest.raises(UnreadableSecret):
            read()
    with mine.transaction():
        mine.credentials.delete(child.id)
    assert mine.credentials.of(child.id) == SECRET
    with mine.transaction():
        mine.credentials.delete(root.id)
    assert mine.credentials.of(child.id) is None
    for one in (mine, wrong):
        one.close()


@everywhere
def test_a_credential_goes_with_its_stack(store: Store, url: str) -> None:
    mine, one, two = keyed(url, OLD), a_stack("one"), a_stack("two")
    insert(mine, one, two)
    with mine.transaction():
        for stack in (one, two):
            mine.credentials.put(stack.id, SECRET)
        mine.stacks.remove([one.id])
    assert mine.credentials.of(one.id) is None
    assert mine.credentials.of(two.id) == SECRET
    mine.close()


@everywhere
def test_an_action_that_is_asked_for_something_keeps_what_it_has(store: Store, url: str) -> None:
    mine, stack = keyed(url, OLD), a_stack(sealed=True)
    insert(mine, stack)
    action = an_action(stack.id, inputs=INPUTS)
    with mine.transaction():
        mine.queue.enqueue(action)
        mine.controls.signal(action.id, Control.CANCEL, 1.0)
    assert in_clear(store) == []
    (live,) = mine.actions.live([stack.id])
    assert (live.inputs, live.control) == (INPUTS, Control.CANCEL)
    mine.close()


@everywhere
def test_large_values_of_a_tree_are_stored_once(store: Store, url: str) -> None:
    """Encrypted for sealed stacks; deleted once no row refers to them."""
    for sealed in (True, False):
        mine = keyed(url, OLD)
        text = "sesame \x01" + "é" * LARGE
        value: Json = {"a": [text, {"b": [text] * 2}], "\x01": "\x01" + "0" * 64, "c": ["n"] * LARGE}
        # Two of them are large: the text and the last list.
        root = a_stack(f"root-{sealed}", environment={"parameters": {"p": value}}, sealed=sealed)
        child = a_stack(f"child-{sealed}", root_id=root.id, environment={"p": value}, sealed=sealed)
        ids = (root.id, child.id)
        rows = [a_resource(f"r{n}", stack_id=ids[n % 2], properties={"p": value, "n": n}) for n in range(6)]
        insert(mine, root, child)
        with mine.transaction():
            mine.resources.insert_many(rows)
            mine.resources.save_many(rows[:2])
        assert mine.stacks.get(root.id) == root
        assert mine.stacks.get(child.id) == child
        found = mine.resources.of(root.id) + mine.resources.of(child.id)
        assert sorted(found, key=lambda row: row.name) == rows
        assert len(mine.database.read("SELECT 1 FROM large_value")) == 2
        if sealed:
            assert in_clear(store) == []
            mine.close()
            both = keyed(url, NEW, OLD)
            assert both.reencrypt().unreadable == []
            both.close()
            mine = keyed(url, NEW)
            assert mine.stacks.get(root.id) == root
        now = LARGE_VALUE_GRACE + 1
        for used in (True, False, False):
            with mine.transaction():
                if not used:
                    mine.resources.delete_many([row.id for row in rows])
                    mine.stacks.save_many([replace(one, environment={}) for one in (root, child)])
                assert [*mine.large_values.unchecked(now - LARGE_VALUE_GRACE, 9)] == [root.id]
                mine.large_values.check(root.id, now)
                assert [*mine.large_values.unchecked(now - LARGE_VALUE_GRACE, 9)] == []
            assert len(mine.database.read("SELECT 1 FROM large_value")) == (0 if now > 3 * LARGE_VALUE_GRACE else 2)
            now += LARGE_VALUE_GRACE + 1
        mine.close()


@everywhere
def test_a_large_value_that_is_used_again_stays(store: Store, url: str) -> None:
    mine, stack = keyed(url, OLD), a_stack()
    row = a_resource(stack_id=stack.id, properties={"p": "x" * LARGE})
    insert(mine, stack)
    now = LARGE_VALUE_GRACE + 1
    for change in (mine.resources.insert_many, lambda rows: mine.resources.delete_many([rows[0].id])):
        with mine.transaction():
            change([row])
            mine.large_values.check(stack.id, now := now + LARGE_VALUE_GRACE + 1)
    with mine.transaction():
        mine.resources.insert_many([row])
    with mine.transaction():
        mine.large_values.check(stack.id, now + LARGE_VALUE_GRACE + 1)
    assert mine.resources.of(stack.id) == [row]
    assert [*mine.large_values.missing()] == []
    with mine.transaction():
        mine.database.write("UPDATE resource SET properties = ?", ("\x01{\"p\":\x01" + "0" * 64 + "}",))
    assert [*mine.large_values.missing()] == [(stack.id, "0" * 64)]
    assert "a row has its large values" in {one.rule for one in mine.inconsistencies(0.0, 0.0)}
    with pytest.raises(NotFound):
        mine.resources.of(stack.id)
    mine.close()
