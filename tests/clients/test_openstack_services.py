"""Aodh's notifier and Tacker's client of Heat, under a policy that repairs.

Both mark by request and update the stack themselves. The policy does not name marks by request: the stack is updated
once, by them.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.processes import Server
from tests.acceptance.repairs import allow_repairs, follow, heal_another, updates
from tests.acceptance.test_services import MEMBER, members, template
from tests.clients.installing import environment
from tests.clients.region import Region, connection

pytestmark = pytest.mark.clients

if TYPE_CHECKING:
    from openstack.connection import Connection

HERE = Path(__file__).parent
SECONDS = 300
"""Time limit of a program."""


@pytest.fixture
def clients(region: Region) -> Iterator[tuple[Server, "Connection"]]:
    """The server with the user's token, and a connection of the administrator.

    The catalog of the project has the endpoints of its region only, since Tacker takes the first Heat of a catalog.
    """
    with ExitStack() as undo:
        ours, admin = connection(region.clouds, "ours"), connection(region.clouds, "ours-admin")
        undo.callback(ours.close)
        undo.callback(admin.close)
        region.server.project, region.server.token = ours.current_project_id, ours.auth_token
        for endpoint in admin.identity.endpoints(region_id=region.name):
            path = f"/OS-EP-FILTER/projects/{ours.current_project_id}/endpoints/{endpoint.id}"
            assert admin.identity.put(path).status_code == 204
            undo.callback(admin.identity.delete, path)
        yield region.server, admin
        region.server.token = ""


def run(program: Path, *words: str) -> str:
    """Return what the program has logged."""
    done = subprocess.run([program, *words], env=os.environ, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stderr


def test_aodh_marks_a_member_and_updates_the_stack(
    clients: tuple[Server, "Connection"], region: Region, tmp_path: Path
) -> None:
    server, admin = clients
    programs = environment("aodh", "aodh==23.0.0")
    path = server.create("for-aodh", template(2), files={"member.yaml": MEMBER})
    assert server.settled(path) == "CREATE_COMPLETE"
    allow_repairs(server, path)
    before = members(server, path)
    failed = before[0]["physical_resource_id"]
    service = admin.identity.create_user(name=f"{region.name}-aodh", domain_id="default", password="aodh")
    project = admin.identity.find_project("service")
    admin.identity.assign_project_role_to_user(project, service, admin.identity.find_role("admin"))
    (tmp_path / "aodh.conf").write_text(
        f"[DEFAULT]\ntransport_url = fake://\n[service_credentials]\nauth_type = password\n"
        f"auth_url = {region.auth_url}\nusername = {service.name}\npassword = aodh\nproject_name = service\n"
        f"user_domain_id = default\nproject_domain_id = default\nregion_name = {region.name}\n"
    )
    reason = {"stack_id": path.rpartition("/")[2], "asg_id": server.resources(path)["VDU"]}
    given = {
        "auth_url": region.auth_url, "name": region.name, "password": region.password,
        "reason_data": {**reason, "unhealthy_members": [{"id": failed}]},
    }  # fmt: skip
    try:
        log = run(programs / "python", str(HERE / "aodh_program.py"), str(tmp_path / "aodh.conf"), json.dumps(given))
        assert "Traceback" not in log, log[-4000:]
        assert server.settled(path) == "UPDATE_COMPLETE"
    finally:
        admin.identity.delete_user(service)
    after = {one["physical_resource_id"] for one in members(server, path)}
    assert failed not in after
    assert before[1]["physical_resource_id"] in after
    heal_another(server, "beside-aodh")
    assert len(updates(server, path)) == 1
    assert follow(server, "DELETE", path).status == 204


def test_tacker_runs_a_vnf(clients: tuple[Server, "Connection"], region: Region, tmp_path: Path) -> None:
    """Instantiate, heal, change with a rollback, and terminate."""
    server, _ = clients
    programs = environment("tacker", "tacker==16.0.0")
    user = json.dumps({"auth_url": region.auth_url, "name": region.name, "password": region.password})

    def call(*calls: tuple[str, *tuple[object, ...]]) -> list[Any]:
        todo = json.dumps([(method, words) for method, *words in calls])
        run(programs / "python", str(HERE / "tacker_program.py"), user, todo, str(tmp_path / "results"))
        results: list[Any] = json.loads((tmp_path / "results").read_text())
        return results

    fields = {"stack_name": "vnf-1", "template": template(2), "files": {"member.yaml": MEMBER}}
    identifier, shown, told, files, known = call(
        ("create_stack", {**fields, "parameters": {"nfv": {"x": 1}}}),
        ("get_parameters", "vnf-1"), ("get_template", "vnf-1"), ("get_files", "vnf-1"), ("get_stack_id", "vnf-1"),
    )  # fmt: skip
    assert (json.loads(shown["nfv"]), told["resources"].keys(), files) == ({"x": 1}, {"VDU"}, fields["files"])
    assert known == identifier
    name = f"vnf-1/{identifier}"
    path = f"/stacks/{name}"

    allow_repairs(server, path)
    first, second = members(server, path)
    (link,) = (one["href"] for one in first["links"] if one["rel"] == "stack")
    owner = "/".join(link.split("/")[-2:])
    _, marked = call(("mark_unhealthy", owner, "server"), ("get_resource_info", owner, "server"))
    assert (marked["resource_status"], marked["resource_status_reason"]) == ("CHECK_FAILED", "marked by tacker")
    heal_another(server, "beside-tacker")
    assert updates(server, path) == []
    call(("update_stack", name, {}))
    assert len(updates(server, path)) == 1
    healed = {one["physical_resource_id"] for one in members(server, path)}
    assert first["physical_resource_id"] not in healed
    assert second["physical_resource_id"] in healed

    failing = {**fields, "template": template(2, fail=True), "existing": False}
    failed, state, _, gone = call(
        ("update_stack", name, failing), ("get_status", name), ("delete_stack", name), ("get_status", "vnf-1")
    )
    assert "Test" in failed["error"]
    assert state[0] == "ROLLBACK_COMPLETE"
    assert gone == [None, None]
