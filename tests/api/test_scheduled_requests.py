"""Bodies of requests for a later time, and what is shown of them."""

from typing import Any

import pytest

from heatlite.core.context import Context
from tests.api.conftest import Heat, Town, template, value
from tests.tables import few

LATER = "2100-01-01T06:00:00Z"
HIDDEN = {"p": {"type": "string", "hidden": True, "default": "a-default"}}


@pytest.fixture
def path(heat: Heat) -> str:
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": value()}}
    return heat.create({**template(a=value({"get_param": "p"}), g=group), "parameters": HIDDEN})


def scheduled(heat: Heat) -> list[Any]:
    return [one["action"] for one in heat.get("/actions?status=INIT")["actions"]]


def test_an_update_shows_nothing_of_its_values(heat: Heat, path: str) -> None:
    patch = {"parameters": {"p": "a-hidden-value"}}
    digest = heat.call("PATCH", f"{path}/preview?plan=true", patch).json["plan"]["digest"]
    body = {"update": {**patch, "plan_digest": digest, "not_before": LATER}}
    answer = heat.call("POST", f"{path}/actions", body, code=200)
    shown = heat.call("GET", "/actions/" + answer.headers["Location"].rpartition("/")[2])
    assert (shown.json["action"]["status"], shown.json["action"]["not_before"]) == ("INIT", LATER)
    assert shown.json["action"]["inputs"] == {"digest": digest}
    for text in (shown.text, answer.text, heat.call("GET", "/actions").text, heat.call("GET", "/audit").text):
        assert "a-hidden-value" not in text
    heat.call("POST", f"/actions/{shown.json['action']['id']}", {"signal": "CANCEL"}, code=202)
    assert scheduled(heat) == []


def test_a_delete_and_changes_of_a_group(heat: Heat, path: str) -> None:
    heat.call("POST", f"{path}/actions", {"delete": {"not_before": LATER}}, code=200)
    asked: dict[str, Any] = {
        "resize": {"adjustment_type": "EXACT_CAPACITY", "number": 3},
        "scale_out": {},
        "scale_in": {},
        "replace_members": {"members": ["1"]},
    }
    for key, options in asked.items():
        answer = heat.call("POST", f"{path}/resources/g/actions", {key: {**options, "not_before": LATER}}, code=202)
        assert answer.json["action"]["status"] == "INIT"
    words = ["STACK_UPDATE", "GROUP_SCALE_IN", "GROUP_SCALE_OUT", "GROUP_RESIZE", "STACK_DELETE"]
    assert scheduled(heat) == words
    heat.call("DELETE", path, code=204)
    assert scheduled(heat) == []


@pytest.mark.parametrize(
    ("below", "asked", "message"),
    few(
        [
            ("", {"update": None}, "update: must be an object, not nothing."),
            ("", {"update": {"not_before": LATER}}, "update: needs plan_digest"),
            ("", {"update": {"plan_digest": "d"}}, "update: needs not_before"),
            (
                "",
                {"update": {"plan_digest": "d", "not_before": LATER, "paramters": {}}},
                "update: unknown key paramters",
            ),
            ("", {"update": {"plan_digest": "d", "not_before": "soon"}}, 'update.not_before: "soon" is not a time'),
            ("", {"delete": {}}, "delete: needs not_before."),
            ("", {"delete": {"not_before": LATER, "force": True}}, "delete: unknown key force"),
            (
                "",
                {"delete": {"not_before": "2020-01-01T00:00:00Z"}},
                "not_before is 2020-01-01T00:00:00Z, which is not in",
            ),
            ("/resources/g", {"scale_out": {"not_before": "soon"}}, 'scale_out.not_before: "soon" is not a time'),
            ("/resources/g", {"delete_members": {"members": ["1"], "not_before": LATER}}, "unknown key not_before"),
        ]
    ),
)
def test_what_is_wrong(heat: Heat, path: str, below: str, asked: object, message: str) -> None:
    assert message in heat.fault("POST", f"{path}{below}/actions", asked)[1]
    assert scheduled(heat) == []


@pytest.mark.parametrize(
    ("below", "asked", "faults"),
    [
        (
            "",
            {"update": {"not_before": "soon", "tags": 5, "template": 7}},
            ["needs plan_digest.", 'not_before: "soon" is not', "update.tags: must be", "template: must be"],
        ),
        ("", {"delete": {"not_before": 3, "force": True}}, ["delete.not_before: must be text", "unknown key force"]),
        (
            "/resources/g",
            {"scale_in": {"count": 0, "not_before": "2100-13-01", "more": 1}},
            ["scale_in.count: must be at least 1.", 'not_before: "2100-13-01" is not a time', "unknown key more"],
        ),
        ("/resources/g", {"replace_members": {"more": 1}}, ["needs members", "unknown key more"]),
    ],
)
def test_all_faults_at_once(heat: Heat, path: str, below: str, asked: object, faults: list[str]) -> None:
    text = heat.fault("POST", f"{path}{below}/actions", asked, code=400)[1]
    assert [one for one in faults if one not in text] == [], text
    sentences = text.split(". ")
    assert len(sentences) == len(set(sentences)), "each is said once"


def test_another_plan_is_a_conflict(heat: Heat, path: str) -> None:
    body = {"update": {"plan_digest": "of-another", "not_before": LATER}}
    assert heat.fault("POST", f"{path}/actions", body, code=409)[0] == "PlanChanged"


@pytest.mark.slow
def test_readers_and_other_projects(town: Town) -> None:
    path = town["member"].create(template(a=value()))
    for body in ({"delete": {"not_before": LATER}}, {"update": {"plan_digest": "d", "not_before": LATER}}):
        town["reader"].call("POST", f"{path}/actions", body, code=403)
        town["member"].other.call("POST", f"{path}/actions", body, code=403)


@pytest.mark.slow
def test_the_rights_of_an_author_are_those_of_then_and_now(town: Town) -> None:
    path = town["member"].create(template(a=value()))
    stack = town.server.store.stacks.get(path.rpartition("/")[2])
    assert stack is not None
    for user, roles, may in (
        ("member", {"member"}, True),
        ("member", {"reader"}, False),
        ("reader", {"member"}, False),
        ("left", {"member"}, False),
        ("expired", {"member"}, False),
    ):
        author = Context(town.project, user, frozenset(roles))
        assert town.server.components.author_now(author, stack).may("stacks:delete") is may, user
