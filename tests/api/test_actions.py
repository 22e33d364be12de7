"""POST …/actions, the maintenance lock and what it suppresses."""

import time
from typing import Any

import pytest

from heatlite.engine.state.hooks import lifecycle_token
from heatlite.store.store import Store
from tests.tables import few

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
    @pytest.mark.parametrize("beside", few([None, "", {}]))
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

    @pytest.mark.parametrize("beside", few([None, "", {}]))
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
        slow = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"create": -1}}}
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


class TestTiming:
    """Options of check, suspend and resume."""

    @pytest.mark.parametrize("verb", few(["check", "suspend", "resume"]))
    def test_later(self, heat: Heat, path: str, verb: str) -> None:
        for text in ("2100-01-01T06:00:00Z", "2100-01-01T08:00:00+02:00", "2100-01-01T06:00:00"):
            action = self.started(heat, path, **{verb: {"not_before": text, "timeout": 60}})
            assert (action["status"], action["timeout"], action["depends_on"]) == ("INIT", 60, [])
        assert heat.get(path)["stack"]["stack_status"] == "CREATE_COMPLETE"

    def test_again_and_again(self, heat: Heat, path: str) -> None:
        action = self.started(heat, path, check={"interval": 12.5})
        assert action["interval"] == 12.5
        heat.settle(path, "CHECK_COMPLETE")
        waiting = heat.get("/actions?status=INIT")["actions"]
        assert [(one["action"], one["cause"]) for one in waiting] == [("STACK_CHECK", "Scheduled Action")]
        kind, message = heat.fault("POST", f"{path}/actions", {"check": {"interval": 60}}, code=409)
        assert (kind, waiting[0]["id"] in message) == ("ActionConflict", True)

    def test_after_others(self, heat: Heat, path: str) -> None:
        first = self.started(heat, path, check=None)
        heat.settle(path, "CHECK_COMPLETE")
        action = self.started(heat, path, suspend={"depends_on": [first["id"], first["id"]]})
        assert action["depends_on"] == [first["id"]]
        heat.settle(path, "SUSPEND_COMPLETE")

    @staticmethod
    def started(heat: Heat, path: str, **action: object) -> Any:
        response = heat.call("POST", f"{path}/actions", action)
        assert response.text == "null"
        return heat.get("/actions/" + response.headers["X-Heatlite-Action"].rpartition("/")[2])["action"]

    @pytest.mark.parametrize(
        ("asked", "message"),
        few(
            [
                ("now", "check: must be an object or null, not text."),
                (True, "check: must be an object or null, not true or false."),
                (
                    {"zz": 1},
                    "check: unknown key zz; there are: not_before, depends_on, timeout, interval, believe_absent.",
                ),
                ({"interval": "60"}, "check.interval: must be a number or null, not text."),
                ({"interval": True}, "check.interval: must be a number or null, not true or false."),
                ({"interval": 9.9}, "check.interval: must be at least 10."),
                ({"interval": 1e999}, None),
                ({"interval": 315360001}, "check.interval: must be at most 315360000."),
                ({"timeout": -1}, "check.timeout: must be at least 0."),
                ({"timeout": 1.5}, "check.timeout: must be a whole number or null, not a number."),
                ({"timeout": 1e300}, "check.timeout: must be at most 315360000."),
                ({"not_before": "soon"}, 'check.not_before: "soon" is not a time in ISO 8601.'),
                ({"not_before": "0001-01-01T00:00:00+14:00"}, None),
                ({"not_before": 5}, "check.not_before: must be text or null, not a number."),
                (
                    {"not_before": "2020-01-01T00:00:00Z"},
                    "not_before is 2020-01-01T00:00:00Z, which is not in the future.",
                ),
                ({"depends_on": "a"}, "check.depends_on: must be a list or null, not text."),
                ({"depends_on": [1]}, "check.depends_on[0]: must be text, not a number."),
                ({"depends_on": ["a"] * 101}, "check.depends_on: may have at most 100 entries."),
                ({"depends_on": ["a"]}, "depends_on: this project has no action with the id a."),
                (
                    {"depends_on": ["a"], "not_before": "2100-01-01T06:00:00Z"},
                    "depends_on: this project has no action with the id a.",
                ),
            ]
        ),
    )
    def test_bad_bodies(self, heat: Heat, path: str, asked: object, message: str | None) -> None:
        before = heat.get("/actions")
        kind, found = heat.fault("POST", f"{path}/actions", {"check": asked})
        assert kind == "HTTPBadRequest"
        assert message is None or found == message
        assert heat.get(path)["stack"]["stack_status"] == "CREATE_COMPLETE"
        assert heat.get("/actions") == before

    @pytest.mark.parametrize("verb", ["suspend", "resume"])
    def test_only_a_check_is_repeated(self, heat: Heat, path: str, verb: str) -> None:
        assert heat.fault("POST", f"{path}/actions", {verb: {"interval": 60}}) == (
            "HTTPBadRequest",
            f"{verb}: unknown key interval; there are: not_before, depends_on, timeout.",
        )

    def test_actions_of_another_project(self, heat: Heat, path: str) -> None:
        theirs = heat.other
        theirs.create(PAIR)
        (foreign,) = theirs.get("/actions")["actions"]
        message = f"depends_on: this project has no action with the id {foreign['id']}."
        assert heat.fault("POST", f"{path}/actions", {"check": {"depends_on": [foreign["id"]]}})[1] == message


class TestLock:
    def test_not_locked(self, heat: Heat, path: str) -> None:
        assert heat.get(f"{path}/lock") == {"lock": None, "suppressed": []}
        assert heat.fault("POST", f"{path}/actions", {"unlock": None}, code=409)[0] == "InvalidStackState"

    @pytest.mark.parametrize(
        ("asked", "level"),
        few([(None, "all"), ({}, "all"), ({"level": "all"}, "all"), ({"level": "stacks"}, "stacks")]),
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
        few(
            [
                ({"level": "zz"}, "lock.level: must be one of: all, stacks."),
                ({"level": None}, "lock.level: must be one of: all, stacks."),
                ({"zz": 1}, "lock: unknown key zz; there are: level, reason, expires_at."),
                ({"reason": 5}, "lock.reason: must be text or null, not a number."),
                ({"reason": "r" * 256}, "lock.reason: may have at most 255 characters."),
                ({"expires_at": "soon"}, 'lock.expires_at: "soon" is not a time in ISO 8601.'),
                ({"expires_at": 5}, "lock.expires_at: must be text or null, not a number."),
                ({"expires_at": "2020-01-01T00:00:00Z"}, None),
                ({"expires_at": "0001-01-01T00:00:00+14:00"}, None),
                ("all", "lock: must be an object or null, not text."),
                ([], "lock: must be an object or null, not a list."),
                (True, "lock: must be an object or null, not true or false."),
            ]
        ),
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
            "unlock: must be null.",
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
            assert "heatlite unlock" in message
        for below in ("", "/template", "/environment", "/files", "/outputs", "/resources", "/resources/a", "/events"):
            heat.get(path + below)
        heat.get("/stacks")
        for method in ("PUT", "PATCH"):
            heat.call(method, f"{path}/preview", update, code=200)

        entries = heat.get(f"{path}/lock")["suppressed"]
        for entry in entries:
            assert entry.keys() == {
                "id", "stack", "time", "last_time", "count", "request", "target", "requested_by", "effect",
                "replayable", "detail", "query",
            }  # fmt: skip
            assert entry["detail"].startswith("The request was refused with 409. Stack s was under maintenance")
            assert "unlock" not in entry["detail"]
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


def told(store: Store, stack_id: str) -> str:
    """The token that a webhook would be told, once something waits."""
    end = time.monotonic() + 240
    while True:
        for row in store.resources.with_token([stack_id]):
            if (token := lifecycle_token(row)) is not None:
                return token
        assert time.monotonic() < end, "nothing waits"
        time.sleep(0.003)


class TestCompleteLifecycle:
    @pytest.mark.parametrize(
        ("beside", "text"),
        few(
            [
                (None, "complete_lifecycle: must be an object, not nothing."),
                ("t", "complete_lifecycle: must be an object, not text."),
                ({}, "complete_lifecycle: needs lifecycle_action_token."),
                (
                    {"lifecycle_action_token": 7},
                    "complete_lifecycle.lifecycle_action_token: must be text, not a number.",
                ),
                (
                    {"lifecycle_action_token": "t", "zz": 1},
                    "complete_lifecycle: unknown key zz; there are: lifecycle_action_token.",
                ),
            ]
        ),
    )
    def test_bad_bodies(self, heat: Heat, path: str, beside: object, text: str) -> None:
        assert heat.fault("POST", f"{path}/actions", {"complete_lifecycle": beside}) == ("HTTPBadRequest", text)

    def test_nothing_waits(self, heat: Heat, path: str) -> None:
        asked = {"complete_lifecycle": {"lifecycle_action_token": "t"}}
        assert heat.fault("POST", f"{path}/actions", asked) == (
            "InvalidLifecycleActionToken",
            "Nothing in stack s waits with this lifecycle_action_token: it was completed, its time is over, or it is "
            "of another stack.",
        )
        assert heat.fault("POST", "/stacks/zz/1/actions", asked, code=404)[0] == "EntityNotFound"

    def test_a_member_of_a_group(self, heat: Heat, store: Store) -> None:
        member = {"type": "OS::Heat::TestResource"}
        group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": member}}
        hook = {"resource_registry": {"resources": {"g": {"*": {"lifecycle_hook": {"timeout": 600}}}}}}
        path = heat.create(template(g=group), environment=hook)
        nested = heat.get(f"{path}/resources/g")["resource"]["physical_resource_id"]
        group["properties"]["count"] = 1  # type: ignore[index]
        heat.call("PATCH", path, {"template": template(g=group), "environment": hook}, code=202)
        token = {"lifecycle_action_token": told(store, nested)}
        shown = heat.get(f"{path}/events?nested_depth=2"), heat.get(f"{path}/resources?nested_depth=2")
        assert token["lifecycle_action_token"] not in str(shown)
        act(heat, path, complete_lifecycle=token)
        heat.settle(path, "UPDATE_COMPLETE")
        assert heat.fault("POST", f"{path}/actions", {"complete_lifecycle": token})[0] == "InvalidLifecycleActionToken"
