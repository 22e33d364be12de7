"""Requests of verbs without a real cloud for tests: arguments reach the SDK."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest

from heatlite.clients.connection import RealCloud
from heatlite.core.json import Json, JsonMap

openstack = pytest.importorskip("openstack", reason="openstacksdk is not installed: pip install -e '.[openstack]'")


VERSIONS = {"network": "v2.0", "load_balancer": "v2.0", "dns": "v2", "key_manager": "v1", "identity": "v3"}
REF = "http://keys.example/v1"


class Recorder:
    """A server that says always the same to whatever a service is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.answer: JsonMap = {}
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            def handle_one(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = self.path.partition("?")[0]
                answer = recorder.answer
                if path.strip("/") in VERSIONS:
                    answer = recorder.versions(path.strip("/"))
                else:
                    recorder.asked.append((self.command, path, json.loads(body) if body else None))
                said = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            setattr(Handler, f"do_{method}", Handler.handle_one)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def versions(self, service: str) -> JsonMap:
        """Texts of services."""
        links: list[Json] = [{"rel": "self", "href": f"{self.url}/{service}"}]
        return {"versions": [{"id": VERSIONS[service], "status": "CURRENT", "links": links}]}


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    found = Recorder()
    thread = threading.Thread(target=found.server.serve_forever, daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture(scope="module")
def cloud(recorder: Recorder) -> Iterator[RealCloud]:
    places = {f"{service}_endpoint_override": f"{recorder.url}/{service}" for service in VERSIONS}
    connection = openstack.connection.Connection(auth_type="none", auth={"endpoint": recorder.url}, **places)
    yield RealCloud(connection)
    connection.close()


NOUNS = [(name, name, name) for name in ("network", "subnet", "port", "router")] + [("ip", "floatingip", "floatingip")]
"""Requests with value_specs: path and body by the SDK's verbs."""

CALLS: list[tuple[str, tuple[str, ...], JsonMap, list[tuple[str, str, Any]]]] = [
    ("load_balancer.create_member", ("p",), {"address": "a", "name": "n"},
     [("POST", "/load_balancer/lbaas/pools/p/members", {"member": {"address": "a", "name": "n"}})]),
    ("load_balancer.get_member", ("m", "p"), {}, [("GET", "/load_balancer/lbaas/pools/p/members/m", None)]),
    ("load_balancer.update_member", ("m", "p"), {"weight": 3},
     [("PUT", "/load_balancer/lbaas/pools/p/members/m", {"member": {"weight": 3}})]),
    ("load_balancer.delete_member", ("m", "p"), {}, [("DELETE", "/load_balancer/lbaas/pools/p/members/m", None)]),
    ("load_balancer.create_l7_rule", ("l",), {"type": "PATH", "tags": ["n"], "key": None},
     [("POST", "/load_balancer/lbaas/l7policies/l/rules", {"rule": {"type": "PATH", "tags": ["n"], "key": None}})]),
    ("load_balancer.update_l7_rule", ("r", "l"), {"value": "v", "key": "k"},
     [("PUT", "/load_balancer/lbaas/l7policies/l/rules/r", {"rule": {"value": "v", "key": "k"}})]),
    ("load_balancer.create_listener", (), {"loadbalancer_id": "b", "admin_state_up": True, "default_pool_id": "p"},
     [("POST", "/load_balancer/lbaas/listeners",
       {"listener": {"loadbalancer_id": "b", "admin_state_up": True, "default_pool_id": "p"}})]),
    ("load_balancer.update_l7_policy", ("l",), {"redirect_pool_id": "p"},
     [("PUT", "/load_balancer/lbaas/l7policies/l", {"l7policy": {"redirect_pool_id": "p"}})]),
    ("dns.create_recordset", ("z",), {"name": "a.", "type": "A", "records": ["1"]},
     [("POST", "/dns/zones/z/recordsets", {"name": "a.", "type": "A", "records": ["1"]})]),
    ("dns.get_recordset", ("r", "z"), {}, [("GET", "/dns/zones/z/recordsets/r", None)]),
    ("dns.update_recordset", ("r",), {"zone_id": "z", "ttl": 9}, [("PUT", "/dns/zones/z/recordsets/r", {"ttl": 9})]),
    ("dns.delete_recordset", ("x", "z"), {},
     [("GET", "/dns/zones/z/recordsets/x", None), ("DELETE", "/dns/zones/z/recordsets/x", None)]),
    ("dns.create_zone", (), {"name": "a.", "email": "e", "masters": []},
     [("POST", "/dns/zones", {"name": "a.", "email": "e", "masters": []})]),
    ("dns.update_zone", ("z",), {"ttl": 9, "masters": ["m"]},
     [("PATCH", "/dns/zones/z", {"ttl": 9, "masters": ["m"]})]),
    ("key_manager.create_secret", (), {"name": "n", "payload": "p", "expiration": "e"},
     [("POST", "/key_manager/secrets", {"name": "n", "payload": "p", "expiration": "e"})]),
    ("key_manager.delete_secret", ("s",), {}, [("DELETE", "/key_manager/secrets/s", None)]),
    ("key_manager.get_order", ("o",), {}, [("GET", "/key_manager/orders/o", None)]),
    ("key_manager.create_order", (), {"type": "key", "meta": {"name": "n"}},
     [("POST", "/key_manager/orders", {"type": "key", "meta": {"name": "n"}})]),
    ("key_manager.create_container", (), {"type": "rsa", "secret_refs": [{"name": "n", "secret_ref": "r"}]},
     [("POST", "/key_manager/containers", {"type": "rsa", "secret_refs": [{"name": "n", "secret_ref": "r"}]})]),
    *[(f"network.create_{noun}", (), {"description": "d", "vendor:new": {"a": 1}},
       [("POST", f"/network/{path}s", {body: {"description": "d", "vendor:new": {"a": 1}}})])
      for noun, path, body in NOUNS],
    *[(f"network.update_{noun}", ("x",), {"vendor:new": None},
       [("PUT", f"/network/{path}s/x", {body: {"vendor:new": None}})]) for noun, path, body in NOUNS],
    ("network.add_router_to_agent", ("a", "r"), {},
     [("POST", "/network/agents/a/l3-routers", {"router_id": "r"})]),
    ("network.remove_dhcp_agent_from_network", ("a", "n"), {},
     [("DELETE", "/network/agents/a/dhcp-networks/n", None)]),
    ("network.update_port", ("x",), {"name": "n", "binding:vnic_type": "normal"},
     [("PUT", "/network/ports/x", {"port": {"name": "n", "binding:vnic_type": "normal"}})]),
    ("identity.assign_project_role_to_user", ("p", "u", "r"), {},
     [("PUT", "/identity/projects/p/users/u/roles/r", None)]),
    ("identity.unassign_domain_role_from_group", ("d", "g", "r"), {},
     [("DELETE", "/identity/domains/d/groups/g/roles/r", None)]),
    ("identity.create_region", (), {"id": "r", "parent_region_id": "p"},
     [("POST", "/identity/regions", {"region": {"id": "r", "parent_region_id": "p"}})]),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "arguments", "attributes", "asked"), CALLS, ids=[one[0] for one in CALLS])
def test_what_is_asked(
    cloud: RealCloud,
    recorder: Recorder,
    verb: str,
    arguments: tuple[str, ...],
    attributes: JsonMap,
    asked: list[tuple[str, str, Any]],
) -> None:
    recorder.asked.clear()
    recorder.answer = {
        "id": "x",
        **{name: {"id": "x"} for name in ("member", "rule", "listener", "l7policy", "region")},
        **{body: {"id": "x"} for _, _, body in NOUNS},
    }
    cloud.call(verb, *arguments, **attributes)
    assert recorder.asked == asked


def test_a_secret_is_called_by_its_url(cloud: RealCloud, recorder: Recorder) -> None:
    recorder.answer = {"secret_ref": f"{REF}/secrets/s"}
    made = cast(JsonMap, cloud.call("key_manager.create_secret", name="n"))
    assert made["id"] == f"{REF}/secrets/s"
    found = cast(JsonMap, cloud.call("key_manager.find_secret", "s"))
    assert found["secret_ref"] == f"{REF}/secrets/s"
    recorder.answer = {"order_ref": f"{REF}/orders/o", "container_ref": f"{REF}/containers/c"}
    order = cast(JsonMap, cloud.call("key_manager.get_order", "o"))
    assert order["container_ref"] == f"{REF}/containers/c"
