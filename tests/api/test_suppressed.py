"""Suppressed requests and their replay (docs/decisions/0021-what-a-lock-hides.md)."""

import json
from contextvars import copy_context
from typing import Any

import pytest

from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.runtime.bulkhead import MustWait, waits
from heatlite.engine.admission.suppressed_requests import SuppressedRequests
from heatlite.store import audit
from heatlite.store.records import SuppressedRecord
from heatlite.wiring import Embedded
from tests.api.conftest import Heat, Town, template, value
from tests.replays import GROUP, replay
from tests.tables import few
from tests.waiting import eventually

MARK = {"mark_unhealthy": True, "resource_status_reason": "disk"}
WITHIN = {
    **template(group=GROUP["resources"]["group"], up=GROUP["resources"]["up"]),  # type: ignore[index]
    "parameters": {"v": {"type": "string", "default": "v"}},
}
TREE: dict[str, Any] = {
    "template": template(a=value(), m={"type": "middle.yaml"}),
    "files": {"middle.yaml": json.dumps(template(l={"type": "leaf.yaml"})), "leaf.yaml": json.dumps(WITHIN)},
}


def locked(heat: Heat, path: str) -> None:
    heat.call("POST", f"{path}/actions", {"lock": {"level": "stacks"}}, code=200)
    heat.settle(path, "LOCK_COMPLETE")


def unlocked(heat: Heat, path: str) -> None:
    heat.call("POST", f"{path}/actions", {"unlock": None}, code=200)
    heat.settle(path, "UNLOCK_COMPLETE")


def listed(heat: Heat, path: str) -> Any:
    return heat.get(f"{path}/lock")["suppressed"]


def replay_url(path: str, entry: Any) -> str:
    return f"{path}/lock/suppressed/{entry['id']}/replay"


def settle_actions(heat: Heat) -> None:
    ended = {"SUCCEEDED", "FAILED", "CANCELLED"}
    eventually(lambda: all(one["status"] in ended for one in heat.get("/actions")["actions"]))


class TestReplay:
    @pytest.mark.slow
    def test_twenty_at_once_take_effect_once(self, server: Embedded, heat: Heat) -> None:
        path = heat.create(GROUP)
        for number in range(1, 6):
            locked(heat, path)
            heat.call("POST", f"{path}/resources/up/signal", {}, code=200)
            unlocked(heat, path)
            (entry,) = listed(heat, path)
            url = f"{heat.root}{replay_url(path, entry)}"
            codes = replay(server.app, url) + replay(server.app, url)
            assert codes.count(200) == 1, codes
            settle_actions(heat)
            assert heat.get(f"{path}/outputs/size")["output"]["output_value"] == number
            assert listed(heat, path) == []

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("method", "below", "body", "room"),
        few(
            [
                ("PATCH", "", {}, "queue"),
                ("DELETE", "", None, "queue"),
                ("POST", "/actions", {"suspend": None}, "queue"),
                ("POST", "/snapshots", {"name": "n"}, "queue"),
                ("DELETE", "/abandon", None, "queue"),
                ("PATCH", "/resources/value", MARK, "events"),
                ("POST", "/resources/up/signal", {}, "events"),
            ]
        ),
    )
    def test_a_crash_in_the_middle_loses_nothing(
        self,
        server: Embedded,
        heat: Heat,
        monkeypatch: pytest.MonkeyPatch,
        method: str,
        below: str,
        body: object,
        room: str,
    ) -> None:
        """The entry goes with the effect, or stays without it."""
        path = heat.create(GROUP)
        locked(heat, path)
        heat.call(method, path + below, body)
        unlocked(heat, path)
        (entry,) = listed(heat, path)
        before = heat.get(path)
        writing: Any = getattr(server.store, room)
        names = ("enqueue", "enqueue_children") if room == "queue" else ("append_many",)
        with monkeypatch.context() as broken:
            for name in names:
                broken.setattr(type(writing), name, failing)
            heat.call("POST", replay_url(path, entry), code=503)
        assert (listed(heat, path), heat.get(path)) == ([entry], before)
        heat.call("POST", replay_url(path, entry))
        settle_actions(heat)
        if method != "DELETE":
            assert listed(heat, path) == []

    def test_a_deletion_keeps_its_query(self, heat: Heat) -> None:
        """An object that was to stay stays."""
        path = heat.create(template(a=value(), b=value()))
        plan = heat.call("PATCH", f"{path}/preview?plan=true", {"delete": {"retain": ["a", "b"]}}, 200).json["plan"]
        queries = ["", "force=true", f"retain=a&retain=b&plan_digest={plan['digest']}"]
        locked(heat, path)
        for query in queries:
            heat.call("DELETE", f"{path}?{query}", code=409)
        unlocked(heat, path)
        entries = listed(heat, path)
        assert [one["query"] for one in entries] == queries
        heat.call("POST", replay_url(path, entries[2]), code=204)
        (action,) = heat.get("/actions?action=STACK_DELETE")["actions"]
        ended = eventually(
            lambda: (one := heat.get(f"/actions/{action['id']}")["action"])["status"] == "SUCCEEDED" and one
        )
        assert [one["path"] for one in ended["outputs"]["retained"]] == ["a", "b"]

    def test_what_is_refused_stays(self, heat: Heat) -> None:
        path = heat.create(template(a=value()))
        locked(heat, path)
        heat.call("POST", f"{path}/actions", {"retry": None}, code=409)
        (entry,) = listed(heat, path)
        heat.call("POST", replay_url(path, entry), code=409)
        unlocked(heat, path)
        assert heat.fault("POST", replay_url(path, entry), code=409)[0] == "InvalidStackState"
        assert listed(heat, path) == [entry]

    def test_what_has_nothing_to_do_is_settled(self, heat: Heat) -> None:
        path = heat.create(template(a=value()))
        locked(heat, path)
        heat.call("PATCH", f"{path}/resources/a", MARK, code=409)
        unlocked(heat, path)
        heat.call("PATCH", f"{path}/resources/a", MARK, code=200)
        (entry,) = listed(heat, path)
        heat.call("POST", replay_url(path, entry), code=200)
        assert listed(heat, path) == []
        heat.call("POST", replay_url(path, entry), code=404)


def lock_of(server: Embedded, entry: SuppressedRecord) -> float:
    """Return the time of the lock that refused a request."""
    stack = server.store.stacks.get(entry.stack_id)
    assert stack is not None
    assert stack.lock is not None
    return stack.lock.locked_at


def failing(*_arguments: object) -> None:
    raise DatabaseUnavailable(reason="the power has failed")


class TestList:
    def test_what_each_would_do(self, heat: Heat) -> None:
        before = {
            **template(a=value(), b=value()),
            "parameters": {"v": {"type": "string", "default": "x"}, "pw": {"type": "string", "hidden": True}},
        }
        path = heat.create(before, parameters={"pw": "sesame"})
        locked(heat, path)
        heat.call("PATCH", f"{path}/resources/a", MARK, code=409)
        after = {**before, "resources": {"a": value("new"), "c": value()}}
        given = {"template": after, "parameters": {"v": "sesame street", "pw": "sesame"}, "files": {"f": "text"}}
        heat.call("PUT", path, given, code=409)
        heat.call("PATCH", path, {"parameters": {"pw": "open"}}, code=409)
        heat.call("PATCH", path, {"template": {"heat_template_version": "zz"}}, code=409)
        heat.call("POST", f"{path}/snapshots", {"name": "n"}, code=409)
        heat.call("PATCH", f"{path}/resources/b", {**MARK, "resource_status_reason": "r" * 300}, code=409)
        mark, put, patch, faulty, snapshot, long = listed(heat, path)
        assert mark["effect"] == MARK
        assert long["effect"]["resource_status_reason"] == "r" * 255
        template_id = put["effect"].pop("template")
        assert put["effect"] == {
            "added": ["c"],
            "removed": ["b"],
            "changed": ["a"],
            "files": ["f"],
            "parameters": {"v": "****** street"},
            "environment": [],
        }
        assert patch["effect"]["parameters"] == {"pw": "******"}
        assert patch["effect"]["template"] != template_id
        assert "sesame" not in json.dumps(listed(heat, path))
        assert faulty["effect"] == {"problem": "InvalidTemplateVersion"}
        assert snapshot["effect"] == {"name": "n"}
        for entry in (mark, put, patch, faulty, snapshot):
            assert entry["replayable"] is True
            assert entry["detail"].startswith("The request was refused with 409. Stack s was under maintenance")
            assert "To lift it" not in entry["detail"]

    def test_signals(self, heat: Heat) -> None:
        path = heat.create(GROUP)
        locked(heat, path)
        for body in ({}, {"current": "alarm"}):
            heat.call("POST", f"{path}/resources/up/signal", body, code=200)
        one, other = listed(heat, path)
        assert one["detail"].startswith("The signal was answered with 200 and ignored. Stack s was under")
        assert (one["effect"]["bytes"], other["effect"]["bytes"]) == (2, 19)
        assert one["effect"]["digest"] != other["effect"]["digest"]

    def test_repeats_are_counted(self, heat: Heat) -> None:
        path = heat.create(template(a=value()))
        locked(heat, path)
        for number in range(5):
            heat.call("PATCH", f"{path}/resources/a", MARK, code=409)
            (entry,) = listed(heat, path)
            assert entry["count"] == number + 1
        assert entry["last_time"] >= entry["time"]

    def test_no_repeat_is_lost_if_a_write_fails(
        self, server: Embedded, heat: Heat, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = heat.create(template(a=value()))
        locked(heat, path)
        heat.call("PATCH", f"{path}/resources/a", MARK, code=409)
        suppressed = server.components.admission.suppressed
        with monkeypatch.context() as broken:
            broken.setattr(type(server.store.suppressed), "count_repeat", failing)
            for _ in range(3):
                heat.call("PATCH", f"{path}/resources/a", MARK, code=409)
            with pytest.raises(DatabaseUnavailable):
                suppressed.flush()
        assert [one["count"] for one in listed(heat, path)] == [4]

    def test_no_repeat_is_lost_if_another_request_is_dropped(self, heat: Heat) -> None:
        path = heat.create(template(a=value(), b=value()))
        locked(heat, path)
        for name in ("a", "b"):
            for _ in range(4):
                heat.call("PATCH", f"{path}/resources/{name}", MARK, code=409)
        first, _ = listed(heat, path)
        heat.call("DELETE", f"{path}/lock/suppressed/{first['id']}", code=204)
        assert [one["count"] for one in listed(heat, path)] == [4]
        heat.call("PATCH", f"{path}/resources/a", MARK, code=409)
        assert [one["count"] for one in listed(heat, path)] == [4, 1]

    def test_who_must_not_wait_counts_no_refusal_twice(
        self, own_server: Embedded, own_heat: Heat, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The event loop answers repeats. What it must not do, a thread does again."""
        heat = own_heat
        path = heat.create(template(a=value()))
        locked(heat, path)
        caplog.set_level("INFO")
        quick = 0
        for seconds in (1e9, 1e9, 1e9, 1e8, 1e8):  # the fourth is "of another minute"
            monkeypatch.setattr(audit, "REPEAT_SECONDS", seconds)
            try:
                with waits(allowed=False):
                    copy_context().run(heat.call, "PATCH", f"{path}/resources/a", MARK, code=409)
                quick += 1
            except MustWait:
                heat.call("PATCH", f"{path}/resources/a", MARK, code=409)
        with pytest.raises(MustWait), waits(allowed=False):
            copy_context().run(listed, heat, path)
        assert quick == 4
        assert [one["count"] for one in listed(heat, path)] == [5]
        assert caplog.text.count("refused stack=") == caplog.text.count(" 409 ") == 5
        own_server.store.audit.flush()
        rows = own_server.store.audit.refusals(heat.project, "resource:mark_unhealthy", 0.0)
        assert [len(rows), sum(one.times for one in rows)] == [2, 5]

    def test_repeats_are_written_without_a_look(self, server: Embedded, heat: Heat) -> None:
        """Other processes see them, too."""
        path = heat.create(template(a=value()))
        locked(heat, path)
        for _ in range(3):
            heat.call("PATCH", f"{path}/resources/a", MARK, code=409)

        def counts() -> list[int]:
            return [one.count for one in server.store.suppressed.list(path.rpartition("/")[2])]

        eventually(lambda: counts() == [3], "the repeats are written")

    def test_two_processes_may_record_a_request_at_once(self, server: Embedded, heat: Heat) -> None:
        path = heat.create(template(a=value()))
        locked(heat, path)
        heat.call("PATCH", f"{path}/resources/a", MARK, code=409)
        (entry,) = server.store.suppressed.list(path.rpartition("/")[2])
        heat.call("DELETE", f"{path}/lock/suppressed/{entry.id}", code=204)
        suppressed, other = server.components.admission.suppressed, SuppressedRequests(server.store)
        locked_at = lock_of(server, entry)

        def effect() -> dict[str, Any]:
            other.add(entry, locked_at, dict)
            return {}

        suppressed.add(entry, locked_at, effect)
        assert [one["count"] for one in listed(heat, path)] == [2]

    def test_a_full_list_says_so_and_keeps_the_newest(self, heat: Heat, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("heatlite.store.stacks.suppressed.MAX_KEPT", 3)
        path = heat.create(template(a=value()))
        for number in range(2):
            locked(heat, path)
            for each in range(3):
                body = {"mark_unhealthy": True, "resource_status_reason": f"{number}{each}"}
                heat.call("PATCH", f"{path}/resources/a", body, code=409)
            unlocked(heat, path)
        shown = heat.get(f"{path}/lock")
        assert [one["effect"]["resource_status_reason"] for one in shown["suppressed"]] == ["10", "11", "12"]
        assert shown["dropped"]["count"] == 3
        for one in shown["suppressed"]:
            heat.call("DELETE", f"{path}/lock/suppressed/{one['id']}", code=204)
        assert heat.get(f"{path}/lock") == {"lock": None, "suppressed": []}

    def test_what_is_too_large_is_not_replayed(self, heat: Heat, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("heatlite.store.stacks.suppressed.MAX_BODY", 100)
        path = heat.create(template(a=value()))
        locked(heat, path)
        heat.call("PATCH", path, {"template": template(a=value("x" * 200))}, code=409)
        unlocked(heat, path)
        (entry,) = listed(heat, path)
        assert (entry["replayable"], entry["effect"]["changed"]) == (False, ["a"])
        kind, text = heat.fault("POST", replay_url(path, entry), code=409)
        assert (kind, "not kept whole" in text) == ("InvalidStackState", True)

    @pytest.mark.slow
    def test_a_root_lists_and_replays_for_its_tree(self, heat: Heat) -> None:
        path = heat.create(TREE["template"], files=TREE["files"])
        nested = {one["stack_name"]: one for one in heat.get("/stacks?show_nested=true")["stacks"]}
        (leaf,) = [one for name, one in nested.items() if name.count("-") == 4]
        below = f"/stacks/{leaf['stack_name']}/{leaf['id']}"
        locked(heat, path)
        heat.call("POST", f"{below}/resources/up/signal", {}, code=200)
        heat.call("PATCH", f"{below}/resources/up", MARK, code=409)
        signal, mark = listed(heat, path)
        assert signal["stack"] == mark["stack"] == {"id": leaf["id"], "name": leaf["stack_name"]}
        assert listed(heat, below) == [signal, mark]
        unlocked(heat, path)
        heat.call("POST", replay_url(path, mark), code=200)
        assert heat.get(f"{below}/resources/up")["resource"]["resource_status"] == "CHECK_FAILED"
        heat.call("DELETE", f"{path}/lock/suppressed/{signal['id']}", code=204)
        assert listed(heat, below) == listed(heat, path) == []


@pytest.mark.usefixtures("guarded")
class TestRights:
    @pytest.fixture
    def members(self, town: Town) -> tuple[Heat, Heat]:
        return town["member"], town["admin"]

    @pytest.mark.slow
    @pytest.mark.parametrize("nested", few([False, True]))
    def test_types_are_asked_for_before_anything_is_listed(self, members: tuple[Heat, Heat], nested: bool) -> None:
        member, _ = members
        path = member.create(template(a=value()))
        body: Any = {"template": GUARDED}
        if nested:
            body = {"template": template(n={"type": "n.yaml"}), "files": {"n.yaml": json.dumps(GUARDED)}}
        locked(member, path)
        for method in ("PUT", "PATCH"):
            kind, text = member.fault(method, path, body, code=403)
            assert (kind, "OS::Heat::TestResource" in text) == ("Forbidden", True)
        assert listed(member, path) == []

    @pytest.mark.slow
    def test_a_replay_lends_no_rights(self, members: tuple[Heat, Heat], monkeypatch: pytest.MonkeyPatch) -> None:
        """No operator replays a request that its author may not make."""
        member, admin = members
        path = member.create(template(a=value()))
        locked(member, path)
        with monkeypatch.context() as open_door:
            open_door.setattr("heatlite.engine.admission.admission.check_types", lambda *_: None)
            member.call("PUT", path, {"template": GUARDED}, code=409)
        unlocked(member, path)
        (entry,) = listed(member, path)
        for one in (member, admin):
            kind, text = one.fault("POST", replay_url(path, entry), code=403)
            assert (kind, "OS::Heat::TestResource" in text) == ("Forbidden", True)
        assert "who made the request that is replayed" in text
        assert listed(member, path) == [entry]

    @pytest.mark.slow
    def test_an_administrators_request_is_replayed_by_an_administrator_only(self, members: tuple[Heat, Heat]) -> None:
        member, admin = members
        path = member.create(template(a=value()))
        locked(member, path)
        admin.call("PUT", path, {"template": GUARDED}, code=409)
        unlocked(member, path)
        (entry,) = listed(member, path)
        assert (entry["effect"]["added"], entry["effect"]["removed"]) == (["g"], ["a"])
        member.call("POST", replay_url(path, entry), code=403)
        admin.call("POST", replay_url(path, entry), code=202)


GUARDED = template(g={"type": "OS::Heat::TestResource", "properties": {"value": "v"}})


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    from heatlite.api.access.policy import TABLE

    monkeypatch.setitem(TABLE, "resource_types:OS::Heat::TestResource", frozenset({"admin"}))
