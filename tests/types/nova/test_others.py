"""Key pairs, flavors, server groups, aggregates and quotas, simulated."""

from collections.abc import Callable
from typing import Any

import pytest

from heatlite.core.status import Status
from tests.engine.conftest import attr, ref, resource, template
from tests.tables import few
from tests.types.conftest import Cloudy

KEY = "compute.keypair"
PUBLIC = "ssh-rsa AAAA me"


def one(kind: str, **properties: object) -> dict[str, Any]:
    return {"x": resource(f"OS::Nova::{kind}", **properties)}


def project(cloudy: Cloudy, name: str) -> str:
    return str(cloudy.admin.call("identity.create_project", name=name)["id"])  # type: ignore[call-overload, index]


FLAVOR = {"ram": 64, "vcpus": 1}
GROUP = {"policies": ["affinity"]}

IN_PLACE: list[tuple[str, dict[str, object], dict[str, object], dict[str, object]]] = [
    ("Flavor", {**FLAVOR, "extra_specs": {"a": 1, "b": "2"}}, {**FLAVOR, "extra_specs": {"b": "3", "c": "4"}},
     {"extra_specs": {"b": "3", "c": "4"}}),
    ("Flavor", {**FLAVOR, "is_public": False, "tenants": ["p1"]}, {**FLAVOR, "is_public": False, "tenants": ["p2"]},
     {"_access": ["p2"]}),
    ("HostAggregate", {"name": "a"}, {"name": "b"}, {"name": "b"}),
    ("HostAggregate", {"name": "a"}, {"name": "a", "availability_zone": "z"}, {"availability_zone": "z"}),
    ("HostAggregate", {"name": "a", "metadata": {"k": "v", "l": "1"}}, {"name": "a", "metadata": {"l": "2"}},
     {"metadata": {"l": "2"}}),
    ("HostAggregate", {"name": "a", "hosts": ["fake-1", "fake-2"]}, {"name": "a", "hosts": ["fake-2", "fake-3"]},
     {"hosts": ["fake-2", "fake-3"]}),
]  # fmt: skip

REPLACED: list[tuple[str, dict[str, object], dict[str, object]]] = [
    ("Flavor", FLAVOR, {**FLAVOR, "ram": 128}),
    ("ServerGroup", GROUP, {"policies": ["anti-affinity"]}),
    ("KeyPair", {"name": "a"}, {"name": "b"}),
    ("KeyPair", {"name": "a"}, {"name": "a", "public_key": PUBLIC}),
]

KINDS: dict[str, dict[str, object]] = {
    "Flavor": FLAVOR,
    "ServerGroup": GROUP,
    "KeyPair": {"name": "a"},
    "HostAggregate": {"name": "a", "hosts": ["fake-1"]},
}


@pytest.fixture
def cloudy(cloudy: Cloudy) -> Cloudy:
    for name in ("p1", "p2"):
        cloudy.admin.call("identity.create_project", id=name, name=name)
    return cloudy


@pytest.mark.parametrize(("kind", "before", "after", "seen"), few(IN_PLACE))
def test_changes_in_place(
    cloudy: Cloudy, kind: str, before: dict[str, object], after: dict[str, object], seen: dict[str, object]
) -> None:
    stack = cloudy.made(one(kind, **before))
    old = cloudy.row(stack, "x").physical_id
    cloudy.changed(stack, one(kind, **after))
    assert cloudy.row(stack, "x").physical_id == old
    thing = cloudy.thing(stack, "x")
    assert {name: thing.get(name) for name in seen} == seen


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "before", "after"), few(REPLACED))
def test_replacements(cloudy: Cloudy, kind: str, before: dict[str, object], after: dict[str, object]) -> None:
    counts = cloudy.census()
    stack = cloudy.made(one(kind, **before))
    made = cloudy.census()
    old = cloudy.row(stack, "x").id
    cloudy.changed(stack, one(kind, **after))
    assert cloudy.row(stack, "x").id != old
    assert cloudy.census() == made
    cloudy.delete(stack)
    assert cloudy.census() == counts


@pytest.mark.parametrize(("kind", "properties"), few(KINDS.items()))
def test_what_is_gone(cloudy: Cloudy, kind: str, properties: dict[str, object]) -> None:
    """A check says so; a delete is content."""
    counts = cloudy.census()
    stack = cloudy.made(one(kind, **properties))
    cls = cloudy.components.types.get(f"OS::Nova::{kind}")
    with cloudy.admin.simulation.lock:
        cloudy.admin.drop(cls.kind, cloudy.thing(stack, "x"))  # type: ignore[attr-defined]
    assert cloudy.check(stack).status is Status.FAILED
    cloudy.delete(stack)
    assert cloudy.census() == counts


@pytest.mark.parametrize(("kind", "properties"), few(KINDS.items()))
def test_an_answer_that_is_lost_makes_no_second_object(
    troubled: Callable[..., Cloudy], kind: str, properties: dict[str, object]
) -> None:
    noun = {"Flavor": "flavor", "ServerGroup": "server_group", "KeyPair": "keypair", "HostAggregate": "aggregate"}[kind]
    cloudy = troubled(faults=[{"verb": f"compute.create_{noun}", "number": 1, "raises": "lost"}])
    counts = cloudy.census()
    stack = cloudy.made(one(kind, **properties))
    if kind == "HostAggregate":
        assert cloudy.thing(stack, "x")["hosts"] == ["fake-1"]
    cloudy.delete(stack)
    assert cloudy.census() == counts


class TestKeyPair:
    def test_a_private_key_is_kept_where_it_is_to_be(self, cloudy: Cloudy) -> None:
        outputs = {"private": attr("x", "private_key"), "public": attr("x", "public_key"), "name": ref("x")}
        stack = cloudy.create(template(**one("KeyPair", name="a", save_private_key=True), outputs=outputs))
        found = cloudy.outputs(stack)
        assert str(found["private"]).startswith("-----BEGIN")
        assert (str(found["public"]).partition(" ")[0], found["name"]) == ("ssh-rsa", "a")

    def test_a_private_key_that_is_lost_is_made_anew(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "compute.create_keypair", "number": 1, "raises": "lost"}])
        stack = cloudy.made(one("KeyPair", name="a", save_private_key=True))
        assert cloudy.row(stack, "x").data["private_key"]
        assert cloudy.count(KEY) == 1

    def test_one_that_cannot_be_read_is_deleted_nevertheless(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "compute.get_keypair", "number": 2, "raises": "refused"}])
        stack = cloudy.create(template(**one("KeyPair", name="mine")))
        assert (stack.status, cloudy.count(KEY)) == (Status.FAILED, 1)
        cloudy.delete(stack)
        assert cloudy.count(KEY) == 0

    @pytest.mark.slow
    def test_a_rollback_brings_the_old_key_back(self, cloudy: Cloudy) -> None:
        stack = cloudy.made(one("KeyPair", name="a", public_key=PUBLIC))
        broken = {
            **one("KeyPair", name="a", public_key="ssh-rsa BBBB"),
            "y": resource("OS::Heat::TestResource", fail=True, keys={"depends_on": "x"}),
        }
        stack = cloudy.put(stack, template(**broken), disable_rollback=False)
        assert (stack.verb, stack.status) == ("ROLLBACK", "COMPLETE")
        assert cloudy.thing(stack, "x")["public_key"] == PUBLIC
        cloudy.delete(stack)
        assert cloudy.count(KEY) == 0

    @pytest.mark.parametrize("fault", few(["lost", "unavailable"]))
    def test_one_that_somebody_else_has_made_stays(self, troubled: Callable[..., Cloudy], fault: str) -> None:
        cloudy = troubled(faults=[{"verb": "compute.create_keypair", "number": 2, "raises": fault}])
        cloudy.view().call("compute.create_keypair", name="a", public_key=PUBLIC)
        stack = cloudy.create(template(**one("KeyPair", name="a", public_key=PUBLIC)))
        assert "already exists" in cloudy.row(stack, "x").status_reason
        cloudy.delete(stack)
        assert cloudy.count(KEY) == 1

    @pytest.mark.slow
    @pytest.mark.parametrize("public", few([PUBLIC, "ssh-rsa BBBB"]))
    def test_one_that_is_not_well_is_replaced(self, cloudy: Cloudy, public: str) -> None:
        stack = cloudy.made(one("KeyPair", name="a", public_key=PUBLIC))
        cloudy.mark(stack, "x")
        cloudy.changed(stack, one("KeyPair", name="a", public_key=public))
        assert cloudy.thing(stack, "x")["public_key"] == public
        cloudy.delete(stack)
        assert cloudy.count(KEY) == 0

    @pytest.mark.slow
    @pytest.mark.parametrize("public", few([PUBLIC, "ssh-rsa BBBB"]))
    def test_a_failed_update_leaves_nothing_behind(self, cloudy: Cloudy, public: str) -> None:
        stack = cloudy.made(one("KeyPair", name="a", public_key=PUBLIC))
        cloudy.mark(stack, "x")
        broken = {
            **one("KeyPair", name="a", public_key=public),
            "y": resource("OS::Heat::TestResource", fail=True, keys={"depends_on": "x"}),
        }
        assert cloudy.put(stack, template(**broken)).status is Status.FAILED
        cloudy.delete(stack)
        assert cloudy.count(KEY) == 0


class TestServerGroup:
    def test_its_servers_are_kept_apart(self, cloudy: Cloudy) -> None:
        server = {"flavor": "m1.nano", "image": "cirros", "networks": [{"allocate_network": "none"}]}
        hints = {"scheduler_hints": {"group": ref("x")}}
        resources = {
            **one("ServerGroup", policies=["anti-affinity"], rules={"max_server_per_host": 2}),
            **{f"s{number}": resource("OS::Nova::Server", **server, **hints) for number in range(4)},
        }
        stack = cloudy.made(resources)
        hosts = [cloudy.thing(stack, f"s{number}")["_host"] for number in range(4)]
        assert all(hosts.count(host) <= 2 for host in hosts)
        assert len(cloudy.thing(stack, "x")["members"]) == 4

    @pytest.mark.slow
    def test_together_where_there_is_no_room_apart(self, cloudy: Cloudy) -> None:
        server = {"flavor": "m1.nano", "image": "cirros", "networks": [{"allocate_network": "none"}]}
        hints = {"scheduler_hints": {"group": ref("x")}}
        many = {f"s{number}": resource("OS::Nova::Server", **server, **hints) for number in range(9)}
        stack = cloudy.create(template(**one("ServerGroup"), **many))
        assert stack.status is Status.FAILED
        assert "No valid host was found." in stack.status_reason

    @pytest.mark.parametrize(
        "properties",
        [
            {"policies": []},
            {"policies": ["affinity"], "rules": {"max_server_per_host": 2}},
        ],
    )
    def test_the_properties_have_to_fit_together(self, cloudy: Cloudy, properties: Any) -> None:
        assert cloudy.components.types.get("OS::Nova::ServerGroup").check_properties(properties) != []


def test_a_host_that_is_not_there(cloudy: Cloudy) -> None:
    with pytest.raises(Exception, match=r"The Host \(nowhere\) could not be found"):
        cloudy.create(template(**one("HostAggregate", name="a", hosts=["nowhere"])))


@pytest.mark.slow
def test_quotas(cloudy: Cloudy) -> None:
    def limits() -> Any:
        return cloudy.admin.call("compute.get_quota_set", "p1")

    before = limits()
    stack = cloudy.made(one("Quota", project="p1", instances=3, cores=-1))
    assert (limits()["instances"], limits()["cores"]) == (3, -1)
    cloudy.changed(stack, one("Quota", project="p1", instances=4))
    assert (limits()["instances"], limits()["cores"]) == (4, before["cores"])
    cloudy.delete(stack)
    assert limits() == before


def test_attributes_of_a_flavor(cloudy: Cloudy) -> None:
    outputs = {"specs": attr("x", "extra_specs"), "public": attr("x", "is_public")}
    stack = cloudy.create(template(**one("Flavor", **FLAVOR, extra_specs={"a": "b"}, flavorid="f1"), outputs=outputs))
    assert cloudy.outputs(stack) == {"specs": {"a": "b"}, "public": True}
    assert cloudy.row(stack, "x").physical_id == "f1"


@pytest.mark.slow
def test_a_private_key_that_is_kept_lies_nowhere_in_clear(cloudy: Cloudy) -> None:
    """Nor do drawn strings and signal keys, in a stack without hidden parameters."""
    stack = cloudy.made({
        **one("KeyPair", name="a", save_private_key=True),
        "drawn": resource("OS::Heat::RandomString"),
        "handle": resource("OS::Heat::WaitConditionHandle"),
    })  # fmt: skip
    assert not cloudy.get(stack).sealed
    rows = dict(cloudy.store.database.read("SELECT name, data FROM resource"))
    assert {name: data[:8] for name, data in rows.items()} == dict.fromkeys(("x", "drawn", "handle"), "fernet1:")
    assert "PRIVATE KEY" in str(cloudy.row(stack, "x").data["private_key"])
