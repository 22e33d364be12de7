"""Facts on operations that wait for a decision."""

from tests.api.conftest import Heat, template

from .test_approvals import THING, policy, refused, replacing


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
        assert len(approves) == (not fact["blocks"]), "the plan of what waits is made again"
        heat.call(reject["method"], reject["path"], reject["body"], code=200)
    assert heat.get(f"{path}/why")["facts"] == []
