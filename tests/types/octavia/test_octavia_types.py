"""Types of the load balancer service on the simulated cloud, through the engine."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from heatlite.core.json import JsonMap
from heatlite.engine.state.requests import Timing
from heatlite.plugin.registry import Registry
from heatlite.store.records import StackRecord
from tests.engine.conftest import MEMBER, ref, resource, template
from tests.resource_types import ALL_TYPES
from tests.tables import few, table
from tests.types.conftest import Cloudy

O = "OS::Octavia::"  # noqa: E741


def octavia(kind: str, **properties: object) -> Any:
    return resource(O + kind, **properties)


BASE = {
    "net": resource("OS::Neutron::Net"),
    "subnet": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/16"),
}
TREE = {
    "lb": octavia("LoadBalancer", vip_subnet=ref("subnet")),
    "listener": octavia("Listener", loadbalancer=ref("lb"), protocol="HTTP", protocol_port=80),
    "pool": octavia("Pool", listener=ref("listener"), protocol="HTTP", lb_algorithm="ROUND_ROBIN"),
    "member": octavia("PoolMember", pool=ref("pool"), address="10.0.0.9", protocol_port=8080),
    "monitor": octavia("HealthMonitor", pool=ref("pool"), type="HTTP", delay=3, timeout=2, max_retries=4),
    "policy": octavia("L7Policy", listener=ref("listener"), action="REJECT"),
    "rule": octavia("L7Rule", l7policy=ref("policy"), type="PATH", compare_type="STARTS_WITH", value="/admin"),
}
NOUNS = {
    "lb": "load_balancer", "listener": "listener", "pool": "pool", "member": "member", "monitor": "health_monitor",
    "policy": "l7_policy", "rule": "l7_rule",
}  # fmt: skip


def with_(name: str, /, **properties: object) -> dict[str, Any]:
    """The tree with some properties of one resource changed; null removes one."""
    given = {**TREE[name]["properties"], **properties}
    return {
        **BASE,
        **TREE,
        name: resource(TREE[name]["type"], **{key: one for key, one in given.items() if one is not None}),
    }


@pytest.mark.slow
def test_a_tree_comes_up_and_goes(cloudy: Cloudy) -> None:
    before = cloudy.census()
    stack = cloudy.made(BASE | TREE)
    assert {cloudy.thing(stack, name)["provisioning_status"] for name in TREE} == {"ACTIVE"}
    cloudy.delete(stack)
    assert cloudy.census() == before


UPDATES: list[tuple[str, JsonMap, dict[str, str]]] = [
    ("lb", {"name": "front", "description": "new", "admin_state_up": False}, {}),
    ("listener", {"name": "web", "description": "new", "admin_state_up": False, "connection_limit": 9}, {}),
    ("listener", {"allowed_cidrs": ["10.0.0.0/8"], "sni_container_refs": ["a"], "default_tls_container_ref": "b"}, {}),
    ("listener", {"default_pool": "spare"}, {"default_pool": "default_pool_id"}),
    ("pool", {"name": "web", "description": "new", "admin_state_up": False, "tls_enabled": True}, {}),
    ("pool", {"lb_algorithm": "SOURCE_IP", "session_persistence": {"type": "SOURCE_IP"}}, {}),
    ("member", {"weight": 7, "admin_state_up": False, "tags": ["blue"]}, {}),
    ("monitor", {"delay": 9, "timeout": 8, "max_retries": 7, "admin_state_up": False}, {}),
    ("monitor", {"http_method": "HEAD", "url_path": "/health", "expected_codes": "200-204"}, {}),
    ("policy", {"name": "away", "description": "new", "admin_state_up": False, "position": 1}, {}),
    ("policy", {"action": "REDIRECT_TO_URL", "redirect_url": "http://a"}, {}),
    ("policy", {"action": "REDIRECT_TO_POOL", "redirect_pool": "spare"}, {"redirect_pool": "redirect_pool_id"}),
    ("rule", {"type": "HEADER", "compare_type": "EQUAL_TO", "key": "X-Who", "value": "me", "invert": True}, {}),
    ("rule", {"admin_state_up": False}, {}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "new", "names"), few(UPDATES))
def test_each_property_that_may_change_is_changed_in_place(
    cloudy: Cloudy, name: str, new: JsonMap, names: dict[str, str]
) -> None:
    spare = {
        "spare": octavia("Pool", name="spare", loadbalancer=ref("lb"), protocol="HTTP", lb_algorithm="ROUND_ROBIN")
    }
    stack = cloudy.made({**BASE, **TREE, **spare})
    old = cloudy.row(stack, name).physical_id
    cloudy.changed(stack, {**with_(name, **new), **spare})
    assert cloudy.row(stack, name).physical_id == old
    thing = cloudy.thing(stack, name)
    for key, value in new.items():
        assert thing[names.get(key, key)] == (cloudy.row(stack, "spare").physical_id if value == "spare" else value)
    cloudy.delete(stack)


def test_the_updates_tried_are_all_there_are() -> None:
    types = Registry(ALL_TYPES)
    for name, definition in TREE.items():
        tried = {key for one, new, _ in UPDATES if one == name for key in new}
        assert tried == types.get(definition["type"]).schema.updatable


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "new"),
    few(
        [
            ("lb", {"vip_address": "10.0.9.9"}),
            ("listener", {"protocol_port": 81}),
            ("pool", {"protocol": "TCP"}),
            ("member", {"address": "10.0.0.10"}),
            ("monitor", {"type": "PING"}),
            ("policy", {"listener": ref("other")}),
            ("rule", {"l7policy": ref("other_policy")}),
        ]
    ),
)
def test_what_may_not_change_makes_another(cloudy: Cloudy, name: str, new: JsonMap) -> None:
    more = {
        "other": octavia("Listener", loadbalancer=ref("lb"), protocol="HTTP", protocol_port=8000),
        "other_policy": octavia("L7Policy", listener=ref("other"), action="REJECT"),
    }
    # Of these there cannot be two at once.
    order = {"update_policy": {"replacement": {"order": "delete_first"}}} if name in ("pool", "monitor") else {}
    stack = cloudy.made({**BASE, **TREE, **more})
    old = cloudy.row(stack, name).physical_id
    after = {**with_(name, **new), **more}
    cloudy.changed(stack, {**after, name: {**after[name], **order}})
    assert cloudy.row(stack, name).physical_id != old


@pytest.mark.slow
def test_parts_wait_for_one_another(troubled: Callable[..., Cloudy]) -> None:
    """Ten members of one pool at once: each waits for those before, none fails."""
    cloudy = troubled(build=5)
    before = cloudy.census()
    members = {
        f"m{number}": octavia("PoolMember", pool=ref("pool"), address=f"10.0.1.{number}", protocol_port=80)
        for number in range(1, 11)
    }
    started = cloudy.clock.now()
    stack = cloudy.made({**BASE, **TREE, **members})
    assert cloudy.clock.now() - started >= 5 * 16
    assert [one for one in cloudy.told(stack) if "FAILED" in one] == []
    new = {key: octavia("PoolMember", **{**one["properties"], "weight": 3}) for key, one in members.items()}
    stack = cloudy.changed(stack, {**BASE, **TREE, **new})
    assert {cloudy.thing(stack, name)["weight"] for name in members} == {3}
    assert cloudy.delete(stack).status == "COMPLETE"
    assert cloudy.census() == before
    assert [one for one in cloudy.told(stack) if "FAILED" in one] == []


def test_a_load_balancer_at_work_is_waited_for(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(build=5)
    before = cloudy.census()
    stack = cloudy.made({**BASE, "lb": TREE["lb"]})

    def occupy() -> None:
        cloudy.admin.call("load_balancer.update_load_balancer", cloudy.row(stack, "lb").physical_id, name="n")
        assert cloudy.thing(stack, "lb")["provisioning_status"] == "PENDING_UPDATE"

    occupy()
    stack = cloudy.changed(stack, {**BASE, "lb": octavia("LoadBalancer", vip_subnet=ref("subnet"), description="d")})
    assert cloudy.thing(stack, "lb")["description"] == "d"
    occupy()
    assert cloudy.delete(stack).status == "COMPLETE"
    assert cloudy.census() == before


@pytest.mark.slow
def test_what_goes_to_error_fails_with_the_reason(troubled: Callable[..., Cloudy]) -> None:
    fault = {"verb": "load_balancer.create_listener", "goes": "ERROR", "message": "no amphora has answered"}
    cloudy = troubled(build=1, faults=[fault])
    stack = cloudy.create(template(**BASE, **TREE))
    assert stack.status == "FAILED"
    assert "no amphora has answered" in cloudy.row(stack, "listener").status_reason
    assert cloudy.delete(stack).status == "COMPLETE"


@pytest.mark.slow
@pytest.mark.parametrize("name", TREE)
def test_what_was_made_unheard_is_found_again(troubled: Callable[..., Cloudy], name: str) -> None:
    verb = f"load_balancer.create_{NOUNS[name]}"
    cloudy = troubled(build=1, faults=[{"verb": verb, "number": 1, "raises": "lost"}])
    stack = cloudy.made(BASE | TREE)
    assert cloudy.count(f"load_balancer.{NOUNS[name]}") == 1
    assert cloudy.delete(stack).status == "COMPLETE"


@pytest.mark.slow
@pytest.mark.parametrize("name", few(TREE))
def test_what_is_gone_is_missed_and_deleted(cloudy: Cloudy, name: str) -> None:
    stack = cloudy.made(BASE | TREE)
    key, more = cloudy.row(stack, name).physical_id, {}
    whole = {"member": ["pool"], "rule": ["policy"]}.get(name, [])
    if name == "lb":
        more["cascade"] = True
    cloudy.admin.call(
        f"load_balancer.delete_{NOUNS[name]}", key, *[cloudy.row(stack, one).physical_id for one in whole], **more
    )
    # Without its load balancer all is gone, and absence in masses is believed on request only.
    cloudy.components.stacks.check(cloudy.who, cloudy.get(stack), Timing(believes_absence=name == "lb"))
    assert cloudy.settle(stack).status == "FAILED"
    assert cloudy.row(stack, name).status == "FAILED"
    assert cloudy.delete(stack).status == "COMPLETE"


@pytest.mark.slow
def test_one_in_error_is_found_by_a_check(cloudy: Cloudy) -> None:
    stack = cloudy.made(BASE | TREE)
    cloudy.thing(stack, "lb")["provisioning_status"] = "ERROR"
    assert cloudy.check(stack).status == "FAILED"
    assert cloudy.delete(stack).status == "FAILED"
    assert "is in ERROR: nothing of it can be changed" in cloudy.row(stack, "rule").status_reason
    cloudy.thing(stack, "lb")["provisioning_status"] = "ACTIVE"
    assert cloudy.delete(stack).status == "COMPLETE"


def attributes(cloudy: Cloudy, stack: StackRecord, name: str) -> JsonMap:
    found = cloudy.components.reader.attributes(MEMBER, cloudy.get(stack), cloudy.row(stack, name), ())
    return {key: value for key, value in found.items() if key != "show"}


def test_attributes(cloudy: Cloudy) -> None:
    stack = cloudy.made(BASE | TREE)
    ids = {name: {"id": cloudy.row(stack, name).physical_id} for name in TREE}
    balancer = attributes(cloudy, stack, "lb")
    assert balancer["pools"] == [ids["pool"]]
    assert balancer["vip_subnet_id"] == cloudy.row(stack, "subnet").physical_id
    port = cast(Any, cloudy.admin.call("network.get_port", balancer["vip_port_id"]))
    assert balancer["vip_address"] == port["fixed_ips"][0]["ip_address"]
    assert attributes(cloudy, stack, "listener") == {
        "loadbalancers": [ids["lb"]], "default_pool_id": ids["pool"]["id"],
    }  # fmt: skip
    assert attributes(cloudy, stack, "pool") == {
        "healthmonitor_id": ids["monitor"]["id"], "listeners": [ids["listener"]], "members": [ids["member"]],
    }  # fmt: skip
    assert attributes(cloudy, stack, "monitor") == {"pools": [ids["pool"]]}
    assert attributes(cloudy, stack, "policy") == {"rules": [ids["rule"]]}


@table(
    ("name", "wrong", "text"),
    [
        ("listener", {"protocol": "TERMINATED_HTTPS"}, "default_tls_container_ref"),
        ("pool", {"listener": None}, "give one of them"),
        ("pool", {"session_persistence": {"type": "APP_COOKIE"}}, "cookie_name belongs to APP_COOKIE"),
        ("pool", {"session_persistence": {"type": "SOURCE_IP", "cookie_name": "a"}}, "cookie_name belongs to"),
        ("policy", {"action": "REDIRECT_TO_POOL"}, "redirect_pool"),
        ("policy", {"action": "REDIRECT_TO_URL"}, "redirect_url"),
        ("rule", {"type": "COOKIE"}, "give key"),
    ],
)
def test_what_makes_no_sense_together(name: str, wrong: JsonMap, text: str) -> None:
    definition = with_(name, **wrong)[name]
    given = {key: "x" if isinstance(value, dict) and "get_resource" in value else value
             for key, value in definition["properties"].items()}  # fmt: skip
    (fault,) = Registry(ALL_TYPES).get(definition["type"]).check_properties(given)
    assert text in fault.text
