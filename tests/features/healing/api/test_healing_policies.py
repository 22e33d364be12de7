"""The healing policies of a project (GET P/healing)."""

import json
import re

import pytest

from tests.api.conftest import Heat, template, value

POLICY = {"healing_policy": "2026-11-22", "mode": "propose"}


@pytest.mark.slow
def test_the_policies_of_a_project_are_listed_in_pages(heat: Heat) -> None:
    paths = [heat.create(template(a=value()), name=name) for name in ("one", "two", "gone", "without")]
    for path in paths[:3]:
        heat.call("PUT", f"{path}/healing", POLICY, code=200)
    heat.call("DELETE", paths[2], code=204)
    heat.settle(paths[2], "DELETE_COMPLETE")
    listed = heat.get("/healing")
    assert [(one["stack_name"], one["policy"], one["version"]) for one in listed["healing_policies"]] == [
        ("one", POLICY, 1),
        ("two", POLICY, 1),
    ]
    assert "links" not in listed
    first = heat.get("/healing?limit=1")
    assert first["healing_policies"] == listed["healing_policies"][:1]
    (link,) = first["links"]
    rest = heat.get("/healing?" + link["href"].partition("?")[2])
    assert rest == {"healing_policies": listed["healing_policies"][1:]}
    assert "Unknown query key mode" in heat.fault("GET", "/healing?mode=auto", code=400)[1]


def test_whole_numbers_with_a_point_are_whole_numbers(heat: Heat) -> None:
    """JSON has one kind of numbers, and some libraries write all with a point."""
    path = heat.create(template(a=value()))
    times = {"windows": [{"cron": "0 2 * * *", "duration": 60}], "ladder": [{"step": "replace", "settle": 9}]}
    whole = {**POLICY, **times, "max_unhealthy": 2, "max_repairs": {"count": 3, "per": 60}, "rules": []}
    given = json.loads(re.sub(r": (\d+)", r": \1.0", json.dumps(whole)))
    assert type(given["max_unhealthy"]) is float
    shown = heat.call("PUT", f"{path}/healing", {**given, "version": 0.0}, code=200).json["policy"]
    assert json.dumps(shown, sort_keys=True) == json.dumps(whole, sort_keys=True)
    assert "max_unhealthy" in heat.fault("PUT", f"{path}/healing", {**POLICY, "max_unhealthy": 1.5}, code=400)[1]
    never = {"windows": [{"cron": "0 2 30 2 *", "duration": 60}]}
    assert "never opens" in heat.fault("PUT", f"{path}/healing", {**POLICY, **never}, code=400)[1]
    source = {"format": "generic", "ttl": 60.0, "storm": {"least": 5.0}}
    shown = heat.call("PUT", "/health/mine/config", source, code=200).json["source"]["document"]
    assert json.dumps(shown) == json.dumps({"format": "generic", "ttl": 60, "storm": {"least": 5}})
