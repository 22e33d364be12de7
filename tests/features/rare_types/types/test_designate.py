"""Types of the DNS service on the simulated cloud, through the engine."""

from collections.abc import Callable
from typing import Any

import pytest

from heatlite.core.json import JsonMap
from heatlite.features.rare_types.services.designate import Zone
from tests.engine.conftest import ref, resource
from tests.tables import few
from tests.types.conftest import Cloudy

ZONE = {"zone": resource("OS::Designate::Zone", name="example.org.", email="a@example.org")}


def records(**properties: object) -> Any:
    given = {"zone": ref("zone"), "name": "www.example.org.", "type": "A", "records": ["10.0.0.1"], **properties}
    return resource("OS::Designate::RecordSet", **given)


@pytest.mark.slow
def test_a_zone_with_records_comes_and_goes(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(build=3)
    before = cloudy.census()
    stack = cloudy.made({**ZONE, "www": records(), "bare": records(name="mail"), "own": records(name=None)})
    assert {cloudy.thing(stack, name)["status"] for name in ("zone", "www", "bare")} == {"ACTIVE"}
    assert cloudy.thing(stack, "bare")["name"] == "mail.example.org."
    assert cloudy.thing(stack, "own")["name"] == f"{cloudy.row(stack, 'own').physical_name}.example.org."
    begun = cloudy.clock.now()
    assert cloudy.delete(stack).status == "COMPLETE"
    assert cloudy.clock.now() - begun >= 6  # the records, then the zone
    assert cloudy.census() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "new"),
    few(
        [
            ("zone", {"email": "b@example.org", "description": "new", "ttl": 60}),
            ("www", {"records": ["10.0.0.2", "10.0.0.3"], "description": "new", "ttl": 60}),
        ]
    ),
)
def test_what_may_change_is_changed_in_place(cloudy: Cloudy, name: str, new: JsonMap) -> None:
    resources = {**ZONE, "www": records()}
    stack = cloudy.made(resources)
    old, serial = cloudy.row(stack, name).physical_id, cloudy.thing(stack, "zone")["serial"]
    given = resources[name]["properties"]
    cloudy.changed(stack, {**resources, name: resource(resources[name]["type"], **{**given, **new})})
    assert cloudy.row(stack, name).physical_id == old
    assert {key: cloudy.thing(stack, name)[key] for key in new} == new
    assert cloudy.thing(stack, "zone")["serial"] != serial


@pytest.mark.parametrize("old_name", ["primaries", "masters"])
def test_a_secondary_zone_is_copied(cloudy: Cloudy, old_name: str) -> None:
    zone = {"name": "example.org.", "type": "SECONDARY"}
    stack = cloudy.made({"zone": resource("OS::Designate::Zone", **zone, **{old_name: ["10.0.0.1"]})})
    cloudy.changed(stack, {"zone": resource("OS::Designate::Zone", **zone, primaries=["10.0.0.2"])})
    assert cloudy.thing(stack, "zone")["masters"] == ["10.0.0.2"]


def test_another_name_is_another_zone(cloudy: Cloudy) -> None:
    stack = cloudy.made({**ZONE, "www": records(name="www")})
    old = [cloudy.row(stack, name).physical_id for name in ("zone", "www")]
    zone = resource("OS::Designate::Zone", name="example.net.", email="a@example.org")
    cloudy.changed(stack, {"zone": zone, "www": records(name="www")})
    assert [cloudy.row(stack, name).physical_id for name in ("zone", "www")] != old
    assert cloudy.thing(stack, "www")["name"] == "www.example.net."
    assert cloudy.count("dns.recordset") == 1


@pytest.mark.parametrize(("name", "kind"), [("zone", "zone"), ("www", "recordset")])
def test_what_is_gone_is_missed_and_deleted(cloudy: Cloudy, name: str, kind: str) -> None:
    stack = cloudy.made({**ZONE, "www": records()})
    cloudy.admin.call(f"dns.delete_{kind}", cloudy.row(stack, name).physical_id)
    assert cloudy.check(stack).status == "FAILED"
    assert cloudy.row(stack, name).status == "FAILED"
    assert cloudy.delete(stack).status == "COMPLETE"


@pytest.mark.parametrize("kind", ["zone", "recordset"])
def test_what_was_made_unheard_is_found_again(troubled: Callable[..., Cloudy], kind: str) -> None:
    cloudy = troubled(faults=[{"verb": f"dns.create_{kind}", "number": 1, "raises": "lost"}])
    cloudy.made({**ZONE, "www": records()})
    assert cloudy.count(f"dns.{kind}") == 1


@pytest.mark.slow
def test_a_zone_in_error_fails(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(build=1, faults=[{"verb": "dns.create_zone", "goes": "ERROR", "message": "no name server"}])
    stack = cloudy.create({"heat_template_version": "2021-04-16", "resources": ZONE})
    assert "no name server" in cloudy.row(stack, "zone").status_reason
    assert cloudy.delete(stack).status == "COMPLETE"


@pytest.mark.slow
def test_a_zone_that_is_there_is_nobodys(cloudy: Cloudy) -> None:
    cloudy.view().call("dns.create_zone", name="example.org.", email="a@example.org")
    stack = cloudy.create({"heat_template_version": "2021-04-16", "resources": ZONE})
    assert "Duplicate Zone (HTTP 409)" in cloudy.row(stack, "zone").status_reason
    cloudy.delete(stack)
    assert cloudy.count("dns.zone") == 1


@pytest.mark.parametrize(
    ("given", "text"),
    [({}, "A primary zone needs an email."), ({"type": "SECONDARY"}, "A secondary zone needs primaries")],
)
def test_what_a_zone_needs(given: JsonMap, text: str) -> None:
    (fault,) = Zone.check_properties({"name": "a.", **given})
    assert text in fault.text


@pytest.mark.parametrize(("token", "needed"), [("ACTIVE", False), ("PENDING", True)])
def test_no_check_follows_a_create_whose_answer_says_that_all_is_done(
    build: Callable[..., Any], token: str, needed: bool
) -> None:
    zone = build(Zone, {"name": "a.b.", "email": "a@b.c"})
    assert (zone.polls("create") and zone.needs_check("create", token)) is needed
