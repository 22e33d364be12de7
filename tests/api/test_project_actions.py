"""The actions of a project: list, show, find by name; links from requests."""

import re
from typing import Any
from urllib.parse import urlsplit

import pytest

from heatlite import wiring
from heatlite.core.clock import from_text
from heatlite.core.json import dump, parse
from heatlite.store.store import Store
from tests.tables import few
from tests.waiting import eventually

from .conftest import Heat, new_project, template, value

PROPERTIES = {
    "id", "name", "context", "action", "target", "cause", "owner", "interval", "start_time", "stop_time", "end_time",
    "timeout", "status", "status_reason", "control", "inputs", "outputs", "data", "depends_on", "depended_by",
    "created_at", "updated_at", "not_before", "deadline", "attempt", "retries", "parent", "operation",
    "links",
}  # fmt: skip
TIMES = ("created_at", "updated_at", "start_time", "stop_time", "end_time", "deadline")


def below(url: str) -> str:
    """The path of a URL that the server gave."""
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def listed(heat: Heat, query: str = "") -> list[Any]:
    found: list[Any] = heat.get(f"/actions{query}")["actions"]
    return found


def treated(heat: Heat) -> str:
    """A stack that was created, updated and checked."""
    path = heat.create(template(a=value()))
    heat.call("PATCH", path, {}, code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    heat.call("POST", f"{path}/actions", {"check": None}, code=200)
    heat.settle(path, "CHECK_COMPLETE")
    return path


@pytest.fixture
def path(heat: Heat) -> str:
    """A stack that was created, updated and checked."""
    return treated(heat)


@pytest.fixture(scope="module")
def shared(shared_server: wiring.Embedded) -> tuple[Heat, str]:
    """The same, for tests that only look."""
    heat = new_project(shared_server)
    return heat, treated(heat)


class TestShow:
    def test_all_properties(self, heat: Heat, path: str) -> None:
        target = path.rpartition("/")[2]
        (shown,) = listed(heat, "?action=STACK_CREATE")
        assert shown == heat.get(f"/actions/{shown['id']}")["action"]
        assert shown.keys() == PROPERTIES
        assert shown["name"] == f"stack_create_{target[-8:]}"
        assert (shown["action"], shown["target"]) == ("STACK_CREATE", target)
        assert (shown["cause"], shown["status"], shown["interval"]) == ("RPC Request", "SUCCEEDED", 0)
        assert shown["outputs"] == {"result": "OK", "stack_status": "CREATE_COMPLETE"}
        assert (shown["depends_on"], shown["depended_by"], shown["parent"]) == ([], [], None)
        assert shown["attempt"] == 1
        context = shown["context"]
        assert context.keys() == {"user", "project", "roles", "request_id"}
        assert (context["user"], context["project"]) == ("anonymous", heat.project)
        assert context["request_id"].startswith("req-")
        assert shown["stop_time"] == shown["end_time"]
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", shown[name]) for name in TIMES)
        assert from_text(shown["deadline"]) - from_text(shown["created_at"]) == 3600

    def test_its_links_lead_to_it_and_to_its_stack(self, heat: Heat, path: str) -> None:
        shown = listed(heat)[0]
        links = {one["rel"]: below(one["href"]) for one in shown["links"]}
        assert heat.get(links["self"])["action"] == shown
        assert heat.call("GET", links["stack"], code=302).location.endswith(path)

    def test_a_stack_leads_to_its_actions(self, heat: Heat, path: str) -> None:
        heat.create(template(a=value()), name="other")
        links = {one["rel"]: below(one["href"]) for one in heat.get(path)["stack"]["links"]}
        found = heat.get(links["actions"])["actions"]
        assert [one["action"] for one in found] == ["STACK_CHECK", "STACK_UPDATE", "STACK_CREATE"]

    def test_history(self, heat: Heat, path: str) -> None:
        action = listed(heat, "?action=STACK_UPDATE")[0]
        moves = heat.get(f"/actions/{action['id']}/history")["history"]
        assert [(move["from"], move["to"]) for move in moves] == [
            ("INIT", "READY"),
            ("READY", "RUNNING"),
            ("RUNNING", "SUCCEEDED"),
        ]
        assert [move["attempt"] for move in moves] == [0, 1, 1]
        assert moves[0]["time"] == action["created_at"]
        assert moves[1]["owner"] == moves[2]["owner"] is not None
        assert moves[2]["reason"] == action["status_reason"]

    def test_a_parent_depends_on_what_is_derived_from_it(self, heat: Heat) -> None:
        inner = template(a=value())
        heat.create(template(n={"type": "inner.yaml"}, m={"type": "inner.yaml"}), files={"inner.yaml": str(inner)})
        parent, *derived = listed(heat, "?sort=created_at")
        assert {one["cause"] for one in derived} == {"Derived Action"}
        assert parent["depends_on"] == [one["id"] for one in derived]
        assert [(one["parent"], one["depended_by"]) for one in derived] == [(parent["id"], [parent["id"]])] * 2
        assert [one["depends_on"] for one in derived] == [[], []]

    def test_a_delete_depends_on_what_it_aborts(self, heat: Heat) -> None:
        endless = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"create": -1}}}
        path = heat.create(template(a=endless), wait=False)
        eventually(lambda: listed(heat)[0]["status"] == "RUNNING")
        heat.call("DELETE", path, code=204)
        heat.settle(path, "DELETE_COMPLETE")
        create, delete = listed(heat, "?sort=created_at")
        assert (create["status"], create["depended_by"]) == ("CANCELLED", [delete["id"]])
        assert (delete["status"], delete["depends_on"]) == ("SUCCEEDED", [create["id"]])

    def test_inputs_say_what_was_asked(self, heat: Heat) -> None:
        text = {"type": "string", "default": "first-secret"}
        parameters = {"size": {"type": "number", "default": 1}, "text": text, "key": {**text, "hidden": True}}
        whole = {**template(a=value({"get_param": "text"})), "parameters": parameters}
        path = heat.create(whole, parameters={"size": 2, "key": "sesame-open"})
        update = {"parameters": {"text": "say sesame-open", "size": 2}, "clear_parameters": ["key"]}
        heat.call("PATCH", path, update, code=202)
        heat.settle(path)
        heat.call("PATCH", path, {}, code=202)
        heat.settle(path)
        heat.call("POST", f"{path}/actions", {"lock": {"level": "stacks", "reason": "disk swap"}}, code=200)
        heat.settle(path)
        assert [one["inputs"] for one in listed(heat, "?sort=created_at")] == [
            {"parameters": {"size": "2", "key": "******"}},
            {"parameters": {"text": "say ******", "key": None}},
            {},
            {"level": "stacks", "reason": "disk swap"},
        ]
        heat.call("POST", f"{path}/actions", {"lock": ""}, code=200)
        heat.settle(path)
        assert listed(heat)[0]["inputs"] == {"level": "all"}

    def test_what_a_restore_takes_over_is_not_shown(self, heat: Heat, store: Store) -> None:
        path = heat.create(template(a={"type": "OS::Heat::RandomString"}))
        snapshot = heat.call("POST", f"{path}/snapshots", {}, code=200).json["id"]
        heat.settle(path, "SNAPSHOT_COMPLETE")
        heat.call("POST", f"{path}/snapshots/{snapshot}/restore", code=202)
        heat.settle(path, "RESTORE_COMPLETE")
        restore, snapshotted, _ = listed(heat)
        stored = store.actions.get(restore["id"])
        assert stored is not None
        assert list(parse(dump(stored.inputs))) == ["resources"]
        assert restore["inputs"] == {} == heat.get(f"/actions/{restore['id']}")["action"]["inputs"]
        assert snapshotted["inputs"] == {"snapshot": snapshot}

    def test_what_a_caller_proves_himself_with_is_not_shown(self, heat: Heat) -> None:
        headers = {"X-Auth-Token": "sesame-token", "X-Auth-Key": "sesame-key"}
        endless = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"create": -1}}}
        body = {"stack_name": "s", "template": template(a=endless)}
        heat.call("POST", "/stacks", body, code=201, headers=headers)
        (shown,) = listed(heat)
        answers = [heat.call("GET", f"/actions{path}").text for path in ("", f"/{shown['id']}")]
        assert not any("sesame" in answer or "secrets" in answer for answer in answers)


class TestFind:
    def test_by_id_name_and_the_beginning_of_an_id(self, shared: tuple[Heat, str]) -> None:
        heat, _ = shared
        action = listed(heat)[0]
        whole = action["id"]
        for reference in (whole, whole.upper(), whole.replace("-", ""), action["name"], whole[:8], whole[:13]):
            assert heat.get(f"/actions/{reference}")["action"]["id"] == whole

    def test_a_name_of_several_actions_lists_them(self, heat: Heat, path: str) -> None:
        heat.call("PATCH", path, {}, code=202)
        heat.settle(path, "UPDATE_COMPLETE")
        newest, older = listed(heat, "?action=STACK_UPDATE")
        assert newest["name"] == older["name"]
        kind, message = heat.fault("GET", f"/actions/{newest['name']}")
        assert kind == "MultipleChoices"
        candidates = message.partition(": ")[2].removesuffix(".").split("; ")
        assert [candidate.split() for candidate in candidates] == [
            [one["id"], one["name"], one["status"], one["created_at"]] for one in (newest, older)
        ]

    @pytest.mark.parametrize(
        "reference", ["nope", "0000", "abc", "019aa4c3-0d11-7c40-b1fb-6f3f0c2f4d11", "%25", "stack_%25", "%E2%98%83"]
    )
    def test_what_there_is_not(self, shared: tuple[Heat, str], reference: str) -> None:
        heat, _ = shared
        for below in ("", "/history"):
            kind, message = heat.fault("GET", f"/actions/{reference}{below}", code=404)
            assert kind == "EntityNotFound"
            assert message.startswith("The Action (")


class TestList:
    def test_newest_first(self, shared: tuple[Heat, str]) -> None:
        heat, _ = shared
        assert [one["action"] for one in listed(heat)] == ["STACK_CHECK", "STACK_UPDATE", "STACK_CREATE"]

    def test_nothing(self, heat: Heat) -> None:
        assert heat.get("/actions") == {"actions": []}

    @pytest.mark.parametrize(
        ("query", "verbs"),
        [
            ("action=STACK_UPDATE", "UPDATE"),
            ("action=STACK_UPDATE,STACK_CHECK", "CHECK UPDATE"),
            ("action=STACK_CHECK&action=STACK_UPDATE", "CHECK UPDATE"),
            ("status=SUCCEEDED", "CHECK UPDATE CREATE"),
            ("status=FAILED,RUNNING", ""),
            ("status=FAILED&status=SUCCEEDED&action=STACK_CREATE", "CREATE"),
            ("name=stack_check_TARGET", "CHECK"),
            ("name=stack_check_TARGET,stack_create_TARGET,nope", "CHECK CREATE"),
            ("name=nope", ""),
            ("target=019aa4c3-0d11-7c40-b1fb-6f3f0c2f4d11", ""),
            ("stack=019aa4c3-0d11-7c40-b1fb-6f3f0c2f4d11", ""),
            ("stack=s&cause=RPC%20Request", "CHECK UPDATE CREATE"),
            ("stack=s,nope&sort=start_time", "CREATE UPDATE CHECK"),
            ("stack=nope", ""),
            ("cause=Healing,Derived%20Action", ""),
            ("sort=end_time:desc", "CHECK UPDATE CREATE"),
            ("sort=action", "CHECK CREATE UPDATE"),
            ("sort=action:desc", "UPDATE CREATE CHECK"),
            ("sort=status:desc,target,created_at:asc", "CREATE UPDATE CHECK"),
            ("sort=created_at:desc", "CHECK UPDATE CREATE"),
            ("sort=status&sort=name:desc", "UPDATE CREATE CHECK"),
            ("limit=2", "CHECK UPDATE"),
            ("limit=0", ""),
        ],
    )
    def test_filters_and_orders(self, shared: tuple[Heat, str], query: str, verbs: str) -> None:
        heat, path = shared
        target = path.rpartition("/")[2][-8:]
        found = listed(heat, f"?{query.replace('TARGET', target)}")
        assert [one["action"] for one in found] == [f"STACK_{verb}" for verb in verbs.split()]

    def test_pages_follow_their_links(self, shared: tuple[Heat, str]) -> None:
        heat, _ = shared
        url: str | None = "/actions?limit=1&sort=action&status=SUCCEEDED,FAILED"
        seen = []
        while url:
            page = heat.get(url)
            seen += [one["action"] for one in page["actions"]]
            url = next((below(one["href"]) for one in page.get("links", [])), None)
        assert seen == ["STACK_CHECK", "STACK_CREATE", "STACK_UPDATE"]

    @pytest.mark.parametrize(("limit", "linked"), [(0, False), (2, True), (3, False), (4, False), (9999, False)])
    def test_only_what_has_a_next_page_links_to_one(self, shared: tuple[Heat, str], limit: int, linked: bool) -> None:
        heat, _ = shared
        assert ("links" in heat.get(f"/actions?limit={limit}")) is linked

    @pytest.mark.parametrize(
        ("query", "says"),
        [
            ("state=FAILED", "Unknown query key state; there are: name, target, stack, action, cause, status, sort, "),
            ("status=DONE", "Unknown status DONE; there are: INIT, READY, WAITING, WAITING_LIFECYCLE_COMPLETION, RUN"),
            ("status=FAILED,failed", "Unknown status failed; there are: "),
            ("status=", "status has no value; omit it to get all."),
            ("action=UPDATE", "Unknown action UPDATE; there are: STACK_CREATE, STACK_UPDATE, STACK_DELETE, "),
            ("target=web", "target must be the id of a stack, a UUID, not web."),
            ("name=,", "name has no value"),
            ("sort=age", "Unknown sort key age; there are: name, target, action, created_at, status, cause, id, "),
            ("cause=me", "Unknown cause me; there are: RPC Request, Derived Action, Scheduled Action, Healing."),
            ("sort=name:up", 'Unknown sort direction "up" of name, acceptable values are: asc, desc.'),
            ("sort=name:", 'Unknown sort direction "" of name'),
            ("sort=name,name:desc", "The sort key name occurs twice."),
            ("limit=-1", "Value '-1' is invalid for 'limit' which only accepts non-negative integer."),
            ("limit=many", "Only integer is acceptable by 'limit'."),
            ("marker=nope", "marker must be the id of an action of this project: there is no nope."),
        ],
    )
    def test_what_cannot_be_asked(self, shared: tuple[Heat, str], query: str, says: str) -> None:
        heat, _ = shared
        kind, message = heat.fault("GET", f"/actions?{query}")
        assert kind == "HTTPBadRequest"
        assert message.startswith(says)


def test_another_projects_actions_are_not_there(heat: Heat, path: str) -> None:
    action = listed(heat)[0]
    other = heat.other
    target = path.rpartition("/")[2]
    assert listed(other) == listed(other, f"?target={target}") == listed(other, f"?name={action['name']}") == []
    for reference in (action["id"], action["name"], action["id"][:8]):
        assert other.fault("GET", f"/actions/{reference}", code=404)[0] == "EntityNotFound"
        assert other.fault("GET", f"/actions/{reference}/history", code=404)[0] == "EntityNotFound"
    assert other.fault("GET", f"/actions?marker={action['id']}")[0] == "HTTPBadRequest"


# -- where requests tell of their action ---------------------------------------------------------------


def told(heat: Heat, method: str, path: str, body: object = None, code: int = 200, location: bool = True) -> Any:
    """The action that an answer tells of; `location`: in Location, too."""
    response = heat.call(method, path, body, code)
    url = response.headers["X-Heatlite-Action"]
    assert (response.headers.get("Location") == url) is location
    assert url.startswith(f"http://localhost:80{heat.root}/actions/")
    return heat.get(below(url))["action"]


class TestHeaders:
    def test_requests_that_change_a_stack(self, heat: Heat) -> None:
        body = {"stack_name": "s", "template": template(a=value())}
        created = told(heat, "POST", "/stacks", body, code=201, location=False)
        target = created["target"]
        path = f"/stacks/s/{target}"
        heat.settle(path)
        for method, below_it, body, code, verb in (
            ("PUT", "", {"template": template(a=value())}, 202, "UPDATE"),
            ("PATCH", "", {}, 202, "UPDATE"),
            ("POST", "/actions", {"check": None}, 200, "CHECK"),
            ("POST", "/actions", {"suspend": None}, 200, "SUSPEND"),
            ("POST", "/actions", {"resume": None}, 200, "RESUME"),
            ("POST", "/actions", {"lock": None}, 200, "LOCK"),
            ("POST", "/actions", {"unlock": None}, 200, "UNLOCK"),
            ("POST", "/snapshots", {}, 200, "SNAPSHOT"),
            ("DELETE", "", None, 204, "DELETE"),
        ):
            action = told(heat, method, path + below_it, body, code)
            assert (action["action"], action["target"]) == (f"STACK_{verb}", target)
            heat.settle(path)

    def test_a_creation_keeps_heats_location(self, heat: Heat) -> None:
        response = heat.call("POST", "/stacks", {"stack_name": "s", "template": template(a=value())}, code=201)
        assert response.location.endswith(f"/stacks/s/{response.json['stack']['id']}")

    def test_restore_retry_adopt_and_abandon(self, heat: Heat) -> None:
        path = heat.create(template(a=value()))
        snapshot = heat.call("POST", f"{path}/snapshots", {}, code=200).json["id"]
        heat.settle(path, "SNAPSHOT_COMPLETE")
        assert told(heat, "POST", f"{path}/snapshots/{snapshot}/restore", code=202)["action"] == "STACK_RESTORE"
        heat.settle(path, "RESTORE_COMPLETE")
        failed = heat.create(template(a={"type": "OS::Heat::TestResource", "properties": {"fail": True}}), "failed")
        action = told(heat, "POST", f"{failed}/actions", {"retry": None})
        assert (action["action"], action["inputs"]) == ("STACK_CREATE", {"retry": True})

    def test_a_replay_tells_of_what_it_queued(self, heat: Heat) -> None:
        path = heat.create(template(a=value()))
        heat.call("POST", f"{path}/actions", {"lock": None}, code=200)
        heat.settle(path, "LOCK_COMPLETE")
        heat.call("POST", f"{path}/actions", {"check": None}, code=409)
        heat.call("POST", f"{path}/actions", {"unlock": None}, code=200)
        heat.settle(path, "UNLOCK_COMPLETE")
        (entry,) = heat.get(f"{path}/lock")["suppressed"]
        assert told(heat, "POST", f"{path}/lock/suppressed/{entry['id']}/replay")["action"] == "STACK_CHECK"

    def test_a_signal_that_resizes(self, heat: Heat) -> None:
        policy = {
            "type": "OS::Heat::ScalingPolicy",
            "properties": {
                "auto_scaling_group_id": {"get_resource": "group"},
                "adjustment_type": "change_in_capacity",
                "scaling_adjustment": 1,
            },
        }
        group = {
            "type": "OS::Heat::AutoScalingGroup",
            "properties": {"min_size": 1, "max_size": 2, "resource": value()},
        }
        path = heat.create(template(group=group, policy=policy))
        nested = heat.get(f"{path}/resources/group")["resource"]["physical_resource_id"]
        action = told(heat, "POST", f"{path}/resources/policy/signal")
        assert (action["action"], action["target"]) == ("STACK_UPDATE", nested)
        heat.settle(below(heat.call("GET", f"/stacks/{nested}", code=302).location))
        # There is no room for a third: the signal is taken, and nothing is queued.
        response = heat.call("POST", f"{path}/resources/policy/signal", code=200)
        assert "X-Heatlite-Action" not in response.headers
        assert "Location" not in response.headers

    def test_what_queues_nothing_tells_of_nothing(self, heat: Heat) -> None:
        path = heat.create(template(a=value()))
        for method, below_it, body, code in (
            ("GET", "", None, 200),
            ("POST", "/actions", {"cancel_update": None}, 400),
            ("PATCH", "/preview", {}, 200),
            ("PATCH", "/resources/a", {"mark_unhealthy": True}, 200),
        ):
            response = heat.call(method, path + below_it, body, code)
            assert not {"Location", "X-Heatlite-Action"} & set(response.headers)

    def test_a_refusal_names_the_action_that_is_in_the_way(self, heat: Heat) -> None:
        endless = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"create": -1}}}
        path = heat.create(template(a=endless), wait=False)
        (holder,) = listed(heat)
        response = heat.call("POST", f"{path}/actions", {"check": None}, code=409)
        assert int(response.headers["Retry-After"]) > 0
        message = response.json["error"]["message"]
        assert "(CREATE)" in message
        assert re.search(r"since 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ\. ", message)
        assert re.search(rf"GET ({heat.root}/actions/{holder['id']})\b", message)


class TestSignals:
    @pytest.fixture
    def endless(self, heat: Heat) -> str:
        """The id of a creation that runs until it is stopped."""
        properties = {"value": "v", "action_wait_secs": {"create": -1}}
        path = heat.create(template(a={"type": "OS::Heat::TestResource", "properties": properties}), wait=False)
        eventually(lambda: listed(heat)[0]["status"] == "RUNNING")
        eventually(lambda: len(heat.get(f"{path}/resources")["resources"]) == 1)
        action: str = listed(heat)[0]["id"]
        return action

    def signal(self, heat: Heat, action: str, **body: object) -> Any:
        return heat.call("POST", f"/actions/{action}", body, code=202).json["action"]

    def status(self, heat: Heat, action: str) -> str:
        found: str = heat.get(f"/actions/{action}")["action"]["status"]
        return found

    def test_cancel(self, heat: Heat) -> None:
        slow = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"create": 1}}}
        chain = {f"r{n}": {**slow, "depends_on": f"r{n - 1}"} for n in range(1, 100)}
        heat.create(template(r0=slow, **chain), wait=False)  # the one in work ends, however late the signal comes
        eventually(lambda: listed(heat)[0]["status"] == "RUNNING")
        action = listed(heat)[0]["id"]
        assert self.signal(heat, action, signal="CANCEL")["id"] == action
        eventually(lambda: self.status(heat, action) == "CANCELLED")
        moves = heat.get(f"/actions/{action}/history")["history"]
        assert [move["to"] for move in moves] == ["READY", "RUNNING", "CANCELLED"]
        kind, message = heat.fault("POST", f"/actions/{action}", {"signal": "CANCEL"}, code=409)
        assert kind == "ActionImmutable"
        assert "CANCELLED" in message

    def test_suspend_and_resume(self, heat: Heat, endless: str) -> None:
        for signal, status in (("SUSPEND", "SUSPENDED"), ("RESUME", "RUNNING")):
            assert self.signal(heat, endless, signal=signal)["id"] == endless
            eventually(lambda status=status: self.status(heat, endless) == status)  # type: ignore[misc]
        moves = heat.get(f"/actions/{endless}/history")["history"]
        assert [move["to"] for move in moves] == ["READY", "RUNNING", "SUSPENDED", "READY", "RUNNING"]

    def test_by_force(self, heat: Heat, endless: str) -> None:
        ended = self.signal(heat, endless[:8], signal="CANCEL", force=True)
        assert (ended["status"], ended["owner"]) == ("CANCELLED", None)
        heat.settle(f"/stacks/s/{ended['target']}", "CREATE_FAILED")

    @pytest.mark.parametrize(
        ("body", "says"),
        few(
            [
                (None, "The request needs a JSON object as its body, not nothing."),
                ([], "The request needs a JSON object as its body, not a list."),
                ({}, "The body: needs signal."),
                ({"force": True}, "The body: needs signal."),
                ({"signal": "STOP"}, "signal: must be one of: CANCEL, RESUME, SUSPEND."),
                ({"signal": "cancel"}, "signal: must be one of: CANCEL, RESUME, SUSPEND."),
                ({"signal": None}, "signal: must be one of: CANCEL, RESUME, SUSPEND."),
                ({"signal": "CANCEL", "force": "yes"}, "force: must be true or false, not text."),
                ({"signal": "SUSPEND", "force": True}, "'force' is valid with CANCEL only"),
                ({"signal": "CANCEL", "why": "x"}, "The body: unknown key why; there are: signal, force."),
            ]
        ),
    )
    def test_what_is_no_signal(self, heat: Heat, endless: str, body: object, says: str) -> None:
        kind, message = heat.fault("POST", f"/actions/{endless}", body)
        assert kind == "HTTPBadRequest"
        assert message.startswith(says)
        assert self.status(heat, endless) == "RUNNING"

    def test_in_the_wrong_state(self, heat: Heat, endless: str) -> None:
        assert heat.fault("POST", f"/actions/{endless}", {"signal": "RESUME"}, code=409)[0] == "InvalidActionState"

    def test_another_projects_action_hears_nothing(self, heat: Heat, endless: str) -> None:
        for signal in ("CANCEL", "SUSPEND", "RESUME"):
            kind, _ = heat.other.fault("POST", f"/actions/{endless}", {"signal": signal}, code=404)
            assert kind == "EntityNotFound"
        assert [move["to"] for move in heat.get(f"/actions/{endless}/history")["history"]] == ["READY", "RUNNING"]

    def test_nobody_is_told_to_wait_for_what_is_suspended(self, heat: Heat, endless: str) -> None:
        target = self.signal(heat, endless, signal="SUSPEND")["target"]
        eventually(lambda: self.status(heat, endless) == "SUSPENDED")
        assert heat.get(f"/actions/{endless}/history")["history"][-1]["reason"] == "asked to SUSPEND"
        _, message = heat.fault("POST", f"/stacks/s/{target}/actions", {"check": None}, code=409)
        assert f"It is SUSPENDED: resume it (heatlite action signal {endless} RESUME" in message

    def test_what_a_delete_aborts_says_so(self, heat: Heat, endless: str) -> None:
        heat.call("DELETE", f"/stacks/s/{heat.get(f'/actions/{endless}')['action']['target']}", code=204)
        eventually(lambda: self.status(heat, endless) == "CANCELLED")
        assert heat.get(f"/actions/{endless}")["action"]["status_reason"] == "the stack is deleted"
