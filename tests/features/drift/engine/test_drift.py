"""Findings of checks, as data: laws and acceptance on the simulated cloud."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from heatlite.clients.cloud import CloudError
from heatlite.core.json import JsonMap
from heatlite.core.status import Status, Verb, state
from heatlite.features.drift.states import DriftRecord, DriftState
from heatlite.features.drift.store.store import DriftCounts, DriftQuery, DriftStore
from heatlite.store.records import StackRecord
from tests.engine.conftest import Engine, attr, param, ref, resource, template, thing
from tests.engine.test_sinks import receiving, sinks
from tests.types.conftest import Cloudy

DRIFTED, IN_SYNC, UNKNOWN = DriftState.DRIFTED, DriftState.IN_SYNC, DriftState.UNKNOWN


def drift(engine: Engine, stack: StackRecord, name: str) -> DriftRecord | None:
    row = engine.row(stack, name)
    return engine.store.of(DriftStore).of([row.id]).get(row.id)


def found(engine: Engine, stack: StackRecord, name: str) -> list[JsonMap]:
    """The differences of a resource, as the API shows them."""
    record = drift(engine, stack, name)
    assert record is not None
    return [to_builtins(one) for one in record.differences or ()]


def told(engine: Engine, stack: StackRecord) -> list[str]:
    """The events of drift."""
    events = [one for one in engine.events(stack) if one.verb == "DRIFT"]
    return [f"{one.resource_name} {state(one.verb, one.status)} {one.status_reason}" for one in events]


def final(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


EVERYTHING = {
    "net": resource("OS::Neutron::Net", name="lan", tags=["a"]),
    "sub": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/24", name="sub", enable_dhcp=True),
    "port": resource("OS::Neutron::Port", network=ref("net"), name="p", depends_on="sub"),
    "sg": resource(
        "OS::Neutron::SecurityGroup",
        rules=[{"protocol": "tcp", "port_range_min": one, "port_range_max": one} for one in (22, 80)],
    ),
    "vm": resource(
        "OS::Nova::Server", name="web", flavor="m1.small", image="cirros", metadata={"tier": "gold", "n": 1},
        networks=[{"port": ref("port")}],
    ),
    "vol": resource("OS::Cinder::Volume", size=1, name="data", metadata={"role": "db"}),
}  # fmt: skip


def change_all(cloudy: Cloudy, stack: StackRecord) -> None:
    """Change something of each object from outside."""
    view, key = cloudy.view(), {row.name: row.physical_id for row in cloudy.rows(stack)}
    view.call("network.update_network", key["net"], name="wan")
    view.call("network.update_subnet", key["sub"], enable_dhcp=False)
    view.call("network.update_port", key["port"], name="q")
    rules: Any = cloudy.admin.call("network.security_group_rules", security_group_id=key["sg"])
    (ssh,) = [one for one in rules if one.get("port_range_min") == 22]
    view.call("network.delete_security_group_rule", ssh["id"])
    for port in (443, 53):
        view.call("network.create_security_group_rule", security_group_id=key["sg"], direction="ingress",
                  ethertype="IPv4", protocol="tcp", port_range_min=port, port_range_max=port)  # fmt: skip
    view.call("compute.set_server_metadata", key["vm"], {"tier": "silver"})
    view.call("block_storage.set_volume_metadata", key["vol"], role="web")


@pytest.mark.slow
def test_each_difference_is_listed_once_and_put_back(cloudy: Cloudy) -> None:
    stack = cloudy.made(EVERYTHING)
    change_all(cloudy, stack)
    stack = cloudy.check(stack)
    assert final(stack) == "CHECK_COMPLETE"
    check = cloudy.store.actions.last(stack.id, Verb.CHECK)
    assert check is not None
    assert check.outputs.checked is not None
    assert check.outputs.checked.drifted == 6
    assert found(cloudy, stack, "net") == [{"path": "/name", "stored": "lan", "live": "wan"}]
    assert found(cloudy, stack, "sub") == [{"path": "/enable_dhcp", "stored": True, "live": False}]
    assert found(cloudy, stack, "port") == [{"path": "/name", "stored": "p", "live": "q"}]
    rules = found(cloudy, stack, "sg")
    assert [(one["path"], "stored" in one, "live" in one) for one in rules] == [
        ("/rules/0", True, False),
        ("/rules/-", False, True),
        ("/rules/-", False, True),
    ]
    assert found(cloudy, stack, "vm") == [{"path": "/metadata/tier", "stored": "gold", "live": "silver"}]
    assert found(cloudy, stack, "vol") == [{"path": "/metadata/role", "stored": "db", "live": "web"}]
    assert len(told(cloudy, stack)) == 6
    before = cloudy.ids(stack)
    stack = cloudy.patch(stack, converge=True)
    assert (final(stack), cloudy.ids(stack)) == ("UPDATE_COMPLETE", before)
    action = cloudy.store.actions.last(stack.id, Verb.UPDATE)
    assert action is not None
    assert sorted(action.outputs.reverted or ()) == sorted(before)
    assert all(one is not None and one.state is IN_SYNC for one in (drift(cloudy, stack, key) for key in before))
    assert len(told(cloudy, stack)) == 12
    stack = cloudy.check(stack)
    assert all(one is not None and one.state is IN_SYNC for one in (drift(cloudy, stack, key) for key in before))
    assert len(told(cloudy, stack)) == 12


def test_a_check_changes_nothing(cloudy: Cloudy) -> None:
    """Law 1.4: only verbs that read, whatever differs."""
    stack = cloudy.made(EVERYTHING)
    change_all(cloudy, stack)
    cloud: Any = cloudy.view().simulation
    calls: list[str] = []
    answer = cloud._answer

    def counted(view: Any, verb: str, *rest: Any) -> Any:
        calls.append(verb.partition(".")[2])
        return answer(view, verb, *rest)

    cloud._answer = counted
    cloudy.check(stack)
    cloud._answer = answer
    changing = ("create_", "update_", "delete_", "set_", "add_", "remove_", "unset_")
    assert calls
    assert [one for one in calls if one.startswith(changing)] == []


def test_names_that_lead_nowhere(cloudy: Cloudy) -> None:
    """Acceptance 2: a flavor, an image, a key pair are removed."""
    view = cloudy.admin
    key = resource("OS::Nova::KeyPair", name="k", public_key="ssh-rsa AAAA")
    stack = cloudy.made(
        {
            "f": resource("OS::Nova::Flavor", name="own", ram=512, vcpus=1, disk=1),
            "vm": resource("OS::Nova::Server", flavor="m1.small", image="cirros", key_name=ref("k")),
            "k": key,
        }
    )
    flavors: Any = view.call("compute.flavors")
    images: Any = view.call("image.images")
    (flavor,) = [one["id"] for one in flavors if one["name"] == "m1.small"]
    (image,) = [one["id"] for one in images if one["name"] == "cirros"]
    view.call("compute.delete_flavor", flavor)
    view.call("image.delete_image", image)
    stack = cloudy.check(stack)
    assert final(stack) == "CHECK_COMPLETE"
    assert (record := drift(cloudy, stack, "vm")) is not None
    assert (record.state, record.unknown_since) == (IN_SYNC, None)
    before = cloudy.ids(stack)
    stack = cloudy.patch(stack, converge=True)
    assert (final(stack), cloudy.ids(stack)) == ("UPDATE_COMPLETE", before)


@pytest.mark.slow
def test_could_not_look(cloudy: Cloudy) -> None:
    """Acceptance 3, law 1.2."""
    stack = cloudy.made({"net": resource("OS::Neutron::Net", name="lan"), "b": resource("OS::Neutron::Net")})
    key = cloudy.row(stack, "net").physical_id
    cloudy.view().call("network.update_network", key, name="wan")
    stack = cloudy.check(stack)
    assert (one := drift(cloudy, stack, "net")) is not None
    assert (one.state, one.since) == (DRIFTED, one.checked_at)
    with Outage(cloudy):
        stack = cloudy.check(stack)
    assert final(stack) == "CHECK_FAILED"
    later = drift(cloudy, stack, "net")
    assert later is not None
    assert (later.state, later.since, later.differences) == (DRIFTED, one.since, one.differences)
    assert later.unknown_since is not None
    assert (well := drift(cloudy, stack, "b")) is not None
    assert (well.state, well.differences) == (UNKNOWN, None)
    stack = cloudy.check(stack)
    assert (again := drift(cloudy, stack, "net")) is not None
    assert (again.state, again.since, again.unknown_since) == (DRIFTED, one.since, None)
    assert told(cloudy, stack) == ["net DRIFT_DETECTED /name"]
    cloudy.view().call("network.update_network", key, name="lan")
    stack = cloudy.check(stack)
    assert told(cloudy, stack) == ["net DRIFT_DETECTED /name", "net DRIFT_ENDED /name"]


class Outage:
    """Inside, the network service answers 500."""

    def __init__(self, cloudy: Cloudy) -> None:
        self._cloud: Any = cloudy.view().simulation

    def __enter__(self) -> None:
        self._answer = self._cloud._answer

        def refuse(view: Any, verb: str, *rest: Any) -> Any:
            if verb.startswith("network.get_"):
                raise CloudError(verb, "boom", 500)
            return self._answer(view, verb, *rest)

        self._cloud._answer = refuse

    def __exit__(self, *_: object) -> None:
        self._cloud._answer = self._answer


@pytest.mark.slow
def test_another_difference_is_no_new_event(cloudy: Cloudy) -> None:
    """Law 1.3."""
    stack = cloudy.made({"net": resource("OS::Neutron::Net", name="lan", shared=False)})
    key = cloudy.row(stack, "net").physical_id
    cloudy.view().call("network.update_network", key, name="wan")
    stack = cloudy.check(stack)
    cloudy.view().call("network.update_network", key, name="man")
    stack = cloudy.check(stack)
    assert found(cloudy, stack, "net") == [{"path": "/name", "stored": "lan", "live": "man"}]
    assert told(cloudy, stack) == ["net DRIFT_DETECTED /name"]


def test_an_update_ends_what_it_writes(cloudy: Cloudy) -> None:
    net = {"name": "lan", "tags": ["x"]}
    stack = cloudy.made({"net": resource("OS::Neutron::Net", **net)})
    key = cloudy.row(stack, "net").physical_id
    cloudy.view().call("network.update_network", key, name="wan")
    cloudy.view().call("network.set_tags", "network", key, ["y"])
    stack = cloudy.check(stack)
    assert [one["path"] for one in found(cloudy, stack, "net")] == ["/name", "/tags/0"]
    stack = cloudy.changed(stack, {"net": resource("OS::Neutron::Net", name="new", tags=["x"])})
    assert [one["path"] for one in found(cloudy, stack, "net")] == ["/tags/0"]
    assert told(cloudy, stack) == ["net DRIFT_DETECTED /name, /tags/0"]
    stack = cloudy.changed(stack, {"net": resource("OS::Neutron::Net", name="new", tags=["z"])})
    assert (record := drift(cloudy, stack, "net")) is not None
    assert record.state is IN_SYNC
    assert told(cloudy, stack)[1:] == ["net DRIFT_ENDED /tags/0"]


@pytest.mark.database
def test_a_replacement_and_a_deletion_end_it(engine: Engine) -> None:
    stack = engine.create(template(a=thing(live_value="w", update_replace_value="1"), b=thing(live_value="w")))
    stack = engine.check(stack)
    stack = engine.put(stack, template(a=thing(live_value="w", update_replace_value="2")))
    assert drift(engine, stack, "a") is None
    assert sorted(told(engine, stack)) == [
        "a DRIFT_DETECTED /value", "a DRIFT_ENDED /value", "b DRIFT_DETECTED /value", "b DRIFT_ENDED /value",
    ]  # fmt: skip
    assert engine.store.of(DriftStore).counts(engine.who.project).drifted == 0


def test_absence_is_no_drift(cloudy: Cloudy) -> None:
    """Law 1.9."""
    stack = cloudy.made({name: resource("OS::Neutron::Net", name=name) for name in "abcd"})
    cloudy.view().call("network.update_network", cloudy.row(stack, "a").physical_id, name="x")
    stack = cloudy.check(stack)
    cloudy.view().call("network.delete_network", cloudy.row(stack, "a").physical_id)
    stack = cloudy.check(stack)
    assert (final(stack), state(cloudy.row(stack, "a").verb, cloudy.row(stack, "a").status)) == (
        "CHECK_FAILED",
        "CHECK_FAILED",
    )
    assert (record := drift(cloudy, stack, "a")) is not None
    assert record.state is DRIFTED
    assert told(cloudy, stack) == ["a DRIFT_DETECTED /name"]


def test_rules_of_others_are_no_drift(cloudy: Cloudy) -> None:
    """Law 1.11."""
    group = resource("OS::Neutron::SecurityGroup", rules=[{"protocol": "tcp", "port_range_min": 1,
                                                           "port_range_max": 1}])  # fmt: skip
    rule = resource("OS::Neutron::SecurityGroupRule", security_group=ref("sg"), protocol="udp")
    stack = cloudy.check(cloudy.made({"sg": group, "rule": rule}))
    assert (record := drift(cloudy, stack, "sg")) is not None
    assert record.state is IN_SYNC


def test_hidden_values(cloudy: Cloudy) -> None:
    """Law 1.8."""
    hidden = {"p": {"type": "string", "hidden": True, "default": "hunter2"}}
    net = resource("OS::Neutron::Net", name={"get_param": "p"})
    stack = cloudy.create(template(parameters=hidden, net=net))
    cloudy.view().call("network.update_network", cloudy.row(stack, "net").physical_id, name="swordfish")
    stack = cloudy.check(stack)
    assert found(cloudy, stack, "net") == [{"path": "/name", "stored": "******", "live": "******"}]
    assert not any(secret in str(cloudy.events(stack)[-1]) for secret in ("swordfish", "hunter2"))


@pytest.mark.slow
def test_webhooks_have_no_hidden_values(plugins: Path, place: Path) -> None:
    """Law 1.8."""
    hidden = {"p": {"type": "string", "hidden": True, "default": "hunter2"}}
    seen = resource("Test::Seen", place=str(plugins / "a"), value={"get_param": "p"})
    with receiving() as receiver:
        engine = Engine(place, webhook_hosts=("127.0.0.1",))
        stack = engine.create(template(parameters=hidden, a=seen), **sinks(receiver.url))
        (plugins / "a").write_text(json.dumps({"value": "swordfish", "kind": ""}))
        stack = engine.check(stack)
        engine.wait_for(lambda: "a DRIFT_DETECTED" in receiver.told(stack))
        engine.close()
        bodies = b"".join(body for _, body in receiver.got)
    assert b"/value" in bodies
    assert b"hunter2" not in bodies
    assert b"swordfish" not in bodies


@pytest.mark.slow
def test_values_that_functions_hide(cloudy: Cloudy) -> None:
    """Law 1.8: no mask finds them. Also in a nested stack, and in a group."""
    digest = {"digest": ["md5", {"get_param": "p"}]}
    hidden = {"p": {"type": "string", "hidden": True, "default": "hunter2"}, "q": {"type": "string", "default": "free"}}
    vm = resource("OS::Cinder::Volume", size=1, name=digest, metadata={"open": {"get_param": "q"}, "pw": digest})
    child = template(parameters={"name": {"type": "string"}}, net=resource("OS::Neutron::Net", name=param("name")))
    group = resource("OS::Heat::ResourceGroup", count=1, resource_def=vm)
    follower = resource("OS::Neutron::Net", name=attr("vm", "display_name"), tags=["a"])
    stack = cloudy.create(
        template(
            parameters=hidden, vm=vm, n={"type": "child.yaml", "properties": {"name": digest}}, g=group, f=follower
        ),
        files={"child.yaml": json.dumps(child)},
    )
    assert final(stack) == "CREATE_COMPLETE", cloudy.why(stack)
    below = {one.parent_resource: one for one in cloudy.store.stacks.descendants(stack)}
    places = [(stack, "vm"), (below["g"], "0")]
    for at, name in places:
        key = cloudy.row(at, name).physical_id
        cloudy.view().call("block_storage.update_volume", key, name="swordfish")
        cloudy.view().call("block_storage.set_volume_metadata", key, pw="swordfish", open="other")
    for at, name in ((stack, "f"), (below["n"], "net")):
        cloudy.view().call("network.update_network", cloudy.row(at, name).physical_id, name="swordfish")
    cloudy.view().call("network.set_tags", "network", cloudy.row(stack, "f").physical_id, ["b"])
    stack = cloudy.check(stack)
    both = {"stored": "******", "live": "******"}
    for at, name in places:
        assert found(cloudy, cloudy.get(at), name) == [
            {"path": "/metadata/open", "stored": "free", "live": "other"},
            {"path": "/metadata/pw", **both},
            {"path": "/name", **both},
        ]
    assert found(cloudy, cloudy.get(below["n"]), "net") == [{"path": "/name", **both}]
    assert found(cloudy, stack, "f") == [
        {"path": "/name", **both},
        {"path": "/tags/0", "stored": "a", "live": "b"},
    ]
    for one in (stack, *below.values()):
        told = [event.status_reason for event in cloudy.events(one)]
        assert not any("swordfish" in text for text in (*told, *cloudy.why(cloudy.get(one))))


@pytest.mark.slow
def test_what_takes_no_part(engine: Engine) -> None:
    stack = engine.create(template(a=thing("v"), v=resource("OS::Heat::RandomString")))
    assert drift(engine, stack, "a") is None
    stack = engine.check(stack)
    assert drift(engine, stack, "v") is None
    counts = engine.store.of(DriftStore).counts(engine.who.project)
    assert (counts.drifted, counts.in_sync, counts.unknown, counts.not_checked) == (0, 1, 0, 1)


@pytest.mark.slow
@pytest.mark.database
def test_many_at_once(engine: Engine) -> None:
    count = 50
    stack = engine.create(template(**{f"r{n}": thing("v", live_value="w") for n in range(count)}))
    for _ in range(2):
        stack = engine.check(stack)
        assert len(told(engine, stack)) == count


@pytest.mark.slow
@pytest.mark.database
def test_the_questions_of_lists(engine: Engine) -> None:
    """Each statement, on the database of this run."""
    child = json.dumps(template(x=thing("v", live_value="w")))
    stack = engine.create(
        template(a=thing("v", live_value="w"), b=thing(), n={"type": "child.yaml"}), files={"child.yaml": child}
    )
    stack, store, project = engine.check(stack), engine.store.of(DriftStore), engine.who.project
    every = tuple(DriftState)
    for states, types, roots, ignored, expected in (
        ((DRIFTED,), (), (), False, {"a", "n/x"}),
        ((DRIFTED,), ("OS::Heat::TestResource",), (stack.id,), True, {"a", "n/x"}),
        ((DRIFTED,), (), ("other",), False, set()),
        ((DriftState.NOT_CHECKED,), (), (), False, {"n"}),
        (every, (), (stack.id,), True, {"a", "b", "n", "n/x"}),
    ):
        found = store.page(project, DriftQuery(states, types, roots, ignored, limit=10))
        assert {*store.paths(found).values()} == expected
    first, *_ = store.page(project, DriftQuery(every, limit=1))
    rest = store.page(project, DriftQuery(every, limit=10, marker=first.resource_id))
    assert first.resource_id not in {one.resource_id for one in rest}
    counts = store.counts(project, [stack.id])
    assert (counts.drifted, counts.in_sync, counts.unknown, counts.not_checked, counts.ignored) == (2, 1, 0, 1, 0)
    drift_of_stack: Any = store.stack_facts([stack.id, "other"], [stack.id])[stack.id]["drift"]
    assert (drift_of_stack["drifted"], drift_of_stack["unknown"]) == (2, 0)
    facts: Any = store.resource_facts([engine.row(stack, "a").id])[engine.row(stack, "a").id]
    assert (facts["drift"]["state"], facts["drift"]["differences"]) == ("drifted", 1)
    assert {one.name: one.values[()] for one in store.totals()} == {
        "heatlite_resources_drifted": 2,
        "heatlite_resources_drift_unknown": 0,
        "heatlite_stacks_drifted": 1,
    }
    engine.delete(stack)
    assert store.counts(project) == DriftCounts(0, 0, 0, 0, 0, None)


@pytest.mark.slow
def test_rows_of_what_was_removed_while_it_was_off_go(plugins: Path, place: Path) -> None:
    engine = Engine(place)
    stack = engine.create(template(a=thing("v", live_value="w"), b=thing("v", live_value="w")))
    engine.check(stack)
    kept, gone = engine.row(stack, "a").id, engine.row(stack, "b").id
    engine.close()
    engine.settings = replace(engine.settings, features=("healing",))
    engine.open()
    engine.put(stack, template(a=thing("v", live_value="w")))
    engine.close()
    engine.settings = replace(engine.settings, features=None)
    engine.open()
    engine.clock.pass_(3600)
    engine.wait_for(lambda: engine.store.of(DriftStore).of([kept, gone]).keys() == {kept})
    engine.close()


@pytest.mark.slow
def test_an_update_that_finds_the_object_as_wanted(cloudy: Cloudy) -> None:
    """The template is edited to that; a takeover between answer and commit."""
    net = resource("OS::Neutron::Net", name="lan")
    stack = cloudy.made(dict.fromkeys("abc", net))
    view, key = cloudy.view(), {row.name: row.physical_id for row in cloudy.rows(stack)}
    for name in "abc":
        view.call("network.update_network", key[name], name="wan")
    stack = cloudy.check(stack)
    view.call("network.update_network", key["b"], name="lan")  # answered, not committed
    for name in "bc":
        cloudy.put_row(stack, name, Verb.UPDATE, Status.IN_PROGRESS)
    stack = cloudy.put(stack, template(a=resource("OS::Neutron::Net", name="wan"), b=net, c=net), converge=True)
    assert (final(stack), [cloudy.thing(stack, name)["name"] for name in "abc"]) == (
        "UPDATE_COMPLETE", ["wan", "lan", "lan"]
    )  # fmt: skip
    for name in "abc":
        record = drift(cloudy, stack, name)
        assert record is not None
        assert (name, record.state, record.number) == (name, IN_SYNC, 0)
    assert len(told(cloudy, stack)) == 6
