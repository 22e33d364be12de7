"""POST …/actions, the maintenance lock and what it suppresses (heat-api §5, lock-and-health §2)."""

from typing import Any

import pytest

from .conftest import Heat, template, value

PAIR = template(a=value(), b=value())
MARK = {"mark_unhealthy": True, "resource_status_reason": "broken"}


def act(heat: Heat, path: str, code: int = 200, **action: object) -> Any:
    response = heat.call("POST", f"{path}/actions", action, code=code)
    if code == 200:
        assert response.text == "null"
    return response.json


@pytest.fixture
def path(heat: Heat) -> str:
    return heat.create(PAIR)


class TestActions:
    @pytest.mark.parametrize("beside", [None, "", {}])
    def test_check(self, heat: Heat, path: str, beside: object) -> None:
        act(heat, path, check=beside)
        stack = heat.settle(path, "CHECK_COMPLETE")
        assert stack["stack_status_reason"] == (
            "Stack CHECK completed successfully. 'CHECK' not fully supported (see resources)"
        )
        reason = heat.get(f"{path}/resources/a")["resource"]["resource_status_reason"]
        assert reason == "CHECK not supported for OS::Heat::Value"

    def test_which_one(self, heat: Heat, path: str) -> None:
        url = f"{path}/actions"
        assert heat.fault("POST", url, {}) == ("HTTPBadRequest", "No action specified")
        assert heat.fault("POST", url) == ("HTTPBadRequest", "No action specified")
        assert heat.fault("POST", url, {"zz": None}) == ("HTTPBadRequest", "Invalid action zz specified")
        both = {"check": None, "suspend": None}
        assert heat.fault("POST", url, both) == ("HTTPBadRequest", "Multiple actions specified")
        assert heat.fault("POST", url, [])[0] == "HTTPBadRequest"

    @pytest.mark.parametrize("cancel", ["cancel_update", "cancel_without_rollback"])
    def test_cancel_of_nothing(self, heat: Heat, path: str, cancel: str) -> None:
        assert heat.fault("POST", f"{path}/actions", {cancel: None}) == (
            "NotSupported",
            "Cancelling update when stack is CREATE_COMPLETE is not supported.",
        )

    def test_cancel(self, heat: Heat, path: str) -> None:
        slow = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"create": -1}}}
        heat.call("PATCH", path, {"template": template(a=value(), b=value(), c=slow)}, code=202)
        act(heat, path, cancel_update=None)
        heat.settle(path, "ROLLBACK_COMPLETE")

    @pytest.mark.parametrize("beside", [None, "", {}])
    def test_suspend_and_resume(self, heat: Heat, path: str, beside: object) -> None:
        act(heat, path, suspend=beside)
        stack = heat.settle(path, "SUSPEND_COMPLETE")
        assert stack["stack_status_reason"] == "Stack SUSPEND completed successfully"
        act(heat, path, suspend=beside)
        assert heat.get(path)["stack"] == stack
        assert heat.fault("PATCH", path, {})[0] == "NotSupported"
        act(heat, path, resume=beside)
        heat.settle(path, "RESUME_COMPLETE")

    def test_while_another_runs(self, heat: Heat) -> None:
        slow = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"create": 30}}}
        path = heat.create(template(a=slow), wait=False)
        for method, below, body in (
            ("PUT", "", {"template": PAIR}),
            ("PATCH", "", {}),
            ("POST", "/actions", {"check": None}),
            ("POST", "/actions", {"lock": None}),
        ):
            response = heat.call(method, path + below, body, code=409)
            assert response.json["error"]["type"] in ("ResourceIsLocked", "ActionConflict")
            assert response.json["error"]["message"].startswith("Stack s already has an action (CREATE)")
            assert int(response.headers["Retry-After"]) > 0
        heat.call("DELETE", path, code=204)
        heat.settle(path, "DELETE_COMPLETE")


class TestLock:
    def test_not_locked(self, heat: Heat, path: str) -> None:
        assert heat.get(f"{path}/lock") == {"lock": None, "suppressed": []}
        assert heat.fault("POST", f"{path}/actions", {"unlock": None}, code=409)[0] == "InvalidStackState"

    @pytest.mark.parametrize(
        ("asked", "level"), [(None, "all"), ({}, "all"), ({"level": "all"}, "all"), ({"level": "stacks"}, "stacks")]
    )
    def test_lock_and_unlock(self, heat: Heat, path: str, asked: object, level: str) -> None:
        act(heat, path, lock=asked)
        assert heat.settle(path, "LOCK_COMPLETE")["locked"] is True
        assert heat.get("/stacks")["stacks"][0]["locked"] is True
        body = heat.get(f"{path}/lock")
        assert body.keys() == {"lock", "suppressed"}
        assert body["lock"].keys() == {"level", "locked_by", "locked_at", "reason", "expires_at", "inherited_from"}
        assert body["lock"]["level"] == level
        assert body["lock"]["reason"] is None
        assert body["lock"]["expires_at"] is None
        assert body["lock"]["inherited_from"] is None
        assert body["suppressed"] == []
        act(heat, path, unlock=None)
        assert heat.settle(path, "UNLOCK_COMPLETE")["locked"] is False
        assert heat.get(f"{path}/lock") == {"lock": None, "suppressed": []}

    def test_reason_and_expiry(self, heat: Heat, path: str) -> None:
        for text in ("2100-01-01T06:00:00Z", "2100-01-01T08:00:00+02:00", "2100-01-01T06:00:00"):
            act(heat, path, lock={"reason": "disk swap", "expires_at": text, "level": "stacks"})
            heat.settle(path, "LOCK_COMPLETE")
            lock = heat.get(f"{path}/lock")["lock"]
            assert (lock["reason"], lock["expires_at"]) == ("disk swap", "2100-01-01T06:00:00Z")
        act(heat, path, lock={"reason": None, "expires_at": None})
        heat.settle(path, "LOCK_COMPLETE")
        assert heat.get(f"{path}/lock")["lock"]["expires_at"] is None

    @pytest.mark.parametrize(
        ("asked", "message"),
        [
            ({"level": "zz"}, "lock.level: has to be one of: stacks, all."),
            ({"level": None}, "lock.level: has to be one of: stacks, all."),
            ({"zz": 1}, "lock: unknown key zz; there are: level, reason, expires_at."),
            ({"reason": 5}, "lock.reason: has to be text or null, not a number."),
            ({"reason": "r" * 256}, "lock.reason: may have at most 255 characters."),
            ({"expires_at": "soon"}, 'lock.expires_at: "soon" is not a time in ISO 8601.'),
            ({"expires_at": 5}, "lock.expires_at: has to be text or null, not a number."),
            ({"expires_at": "2020-01-01T00:00:00Z"}, None),
            ({"expires_at": "0001-01-01T00:00:00+14:00"}, None),
            ("all", "lock: has to be an object or null, not text."),
            ([], "lock: has to be an object or null, not a list."),
            (True, "lock: has to be an object or null, not true or false."),
        ],
    )
    def test_bad_bodies(self, heat: Heat, path: str, asked: object, message: str | None) -> None:
        kind, found = heat.fault("POST", f"{path}/actions", {"lock": asked})
        assert kind == "HTTPBadRequest"
        assert message is None or found == message
        assert heat.get(path)["stack"]["stack_status"] == "CREATE_COMPLETE"

    def test_unlock_takes_nothing(self, heat: Heat, path: str) -> None:
        act(heat, path, lock=None)
        heat.settle(path, "LOCK_COMPLETE")
        assert heat.fault("POST", f"{path}/actions", {"unlock": {"level": "all"}}) == (
            "HTTPBadRequest",
            "unlock: has to be null.",
        )

    def test_what_is_refused(self, heat: Heat, path: str) -> None:
        act(heat, path, lock={"level": "stacks", "reason": "disk swap"})
        heat.settle(path, "LOCK_COMPLETE")
        update = {"template": PAIR}
        for method, below, body in (
            ("PUT", "", update),
            ("PATCH", "", {}),
            ("DELETE", "", None),
            ("POST", "/actions", {"check": None}),
            ("POST", "/actions", {"suspend": None}),
            ("POST", "/actions", {"resume": None}),
            ("POST", "/actions", {"cancel_update": None}),
            ("POST", "/actions", {"cancel_without_rollback": None}),
            ("PATCH", "/resources/a", MARK),
        ):
            response = heat.call(method, path + below, body, code=409)
            assert response.json["error"]["type"] == "StackLocked"
            message = response.json["error"]["message"]
            assert "'stacks'" in message
            assert "disk swap" in message
            assert f"POST /v1/demo{path}/actions" in message
            assert '{"unlock": null}' in message
        for below in ("", "/template", "/environment", "/files", "/outputs", "/resources", "/resources/a", "/events"):
            heat.get(path + below)
        heat.get("/stacks")
        for method in ("PUT", "PATCH"):
            heat.call(method, f"{path}/preview", update, code=200)

        entries = heat.get(f"{path}/lock")["suppressed"]
        for entry in entries:
            assert entry.keys() == {"id", "time", "request", "target", "requested_by", "detail"}
        assert [(entry["request"], entry["target"]) for entry in entries] == [
            ("update", "s"),
            ("update", "s"),
            ("delete", "s"),
            ("check", "s"),
            ("suspend", "s"),
            ("resume", "s"),
            ("cancel_update", "s"),
            ("cancel_without_rollback", "s"),
            ("mark_unhealthy", "a"),
        ]

    def test_replay(self, heat: Heat, path: str) -> None:
        act(heat, path, lock=None)
        heat.settle(path, "LOCK_COMPLETE")
        heat.call("PATCH", f"{path}/resources/a", MARK, code=409)
        heat.call("PATCH", path, {"tags": "t", "template": PAIR}, code=409)
        heat.call("DELETE", path, code=409)
        mark, update, delete = heat.get(f"{path}/lock")["suppressed"]
        entry = f"{path}/lock/suppressed"

        assert heat.fault("POST", f"{entry}/{mark['id']}/replay", code=409)[0] == "StackLocked"
        assert heat.get(f"{path}/lock")["suppressed"] == [mark, update, delete]

        act(heat, path, unlock=None)
        heat.settle(path, "UNLOCK_COMPLETE")
        assert heat.get(f"{path}/lock") == {"lock": None, "suppressed": [mark, update, delete]}

        response = heat.call("POST", f"{entry}/{mark['id']}/replay", code=200)
        assert response.text == "null"
        resource = heat.get(f"{path}/resources/a")["resource"]
        assert (resource["resource_status"], resource["resource_status_reason"]) == ("CHECK_FAILED", "broken")
        assert heat.get(f"{path}/lock")["suppressed"] == [update, delete]

        heat.call("POST", f"{entry}/{update['id']}/replay", code=202)
        stack = heat.settle(path, "UPDATE_COMPLETE")
        assert stack["tags"] == ["t"]
        response = heat.call("POST", f"{entry}/{delete['id']}/replay", code=204)
        assert response.body == b""
        heat.settle(path, "DELETE_COMPLETE")

    def test_forget(self, heat: Heat, path: str) -> None:
        act(heat, path, lock=None)
        heat.settle(path, "LOCK_COMPLETE")
        heat.call("DELETE", path, code=409)
        (entry,) = heat.get(f"{path}/lock")["suppressed"]
        url = f"{path}/lock/suppressed/{entry['id']}"
        heat.call("DELETE", url, code=204)
        assert heat.get(f"{path}/lock")["suppressed"] == []
        for wrong in (url, f"{path}/lock/suppressed/zz", f"{path}/lock/suppressed/{'9' * 30}"):
            assert heat.fault("DELETE", wrong, code=404)[0] == "NotFound"
            assert heat.fault("POST", f"{wrong}/replay", code=404)[0] == "NotFound"

    def test_of_a_deleted_stack(self, heat: Heat, path: str) -> None:
        heat.call("DELETE", path, code=204)
        heat.settle(path, "DELETE_COMPLETE")
        for action in ("lock", "unlock"):
            assert heat.fault("POST", f"{path}/actions", {action: None}, code=409)[0] == "InvalidStackState"
