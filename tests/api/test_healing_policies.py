"""The healing policies of a project (GET P/healing)."""

from tests.api.conftest import Heat, template, value

POLICY = {"healing_policy": "2026-11-22", "mode": "propose"}


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
