"""Facts on operations that wait for a decision."""

from tests.api.conftest import Heat, template

from .test_approvals import THING, approve, policy, refused, replacing


def test_what_waits_for_a_decision_is_a_fact(own_heat: Heat) -> None:
    heat = own_heat
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    found = refused(heat, "DELETE", path)
    (fact,) = heat.get(f"{path}/why")["facts"]
    assert (fact["code"], fact["id"], fact["by"], fact["blocks"]) == ("approval", found["id"], "anonymous", [])
    action = heat.call("PUT", f"{path}?approval=wait", replacing(), code=202).json["action"]
    answer = heat.get(f"{path}/why")
    assert answer["waits"]
    first, second = answer["facts"]
    (update,) = [one for one in (first, second) if one["blocks"]]
    assert update["blocks"] == [action["id"]]
    assert heat.get(f"/actions/{action['id']}")["action"]["status_reason"] == update["text"]
    for fact in (first, second):
        *approves, reject = [way for way in fact["way_out"] if way["path"]]
        assert [way["after"] for way in approves] == ([None, 0] if fact["blocks"] else [None]), "its plan is made again"
        heat.call(reject["method"], reject["path"], reject["body"], code=200)
    assert heat.get(f"{path}/why")["facts"] == []


def test_what_has_to_be_sent_again_is_a_fact(own_heat: Heat) -> None:
    """Reasons of a stack name an approval until it is used."""
    heat = own_heat
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    found = refused(heat, "PUT", path, replacing())
    (before,) = heat.get(f"{path}/why")["facts"]
    assert before["way_out"][0]["text"] == "shows it, asks, and lets it pass once it is sent again"
    approve(heat, found)
    (after,) = heat.get(f"{path}/why")["facts"]
    assert (after["id"], after["blocks"], after["way_out"]) == (found["id"], [], [])
    assert "is approved: it passes once it is sent again" in after["text"]
    heat.call("PUT", path, replacing(), code=202)
    heat.settle(path)
    assert heat.get(f"{path}/why")["facts"] == []
