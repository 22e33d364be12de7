"""Accounts of agents in Keystone's stack domain, one per resource (decision 0014)."""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from email import message_from_bytes
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest

from heatlite import wiring
from heatlite.core.config import Auth, BadSetting, Settings
from heatlite.features.simulator.feature import SimulatorSettings
from heatlite.features.simulator.simulation import ADMIN, SimulatedProject
from tests.acceptance.keystone import Account, Keystone
from tests.api.conftest import Heat, template, value
from tests.api.test_access import MACHINES, OPEN, P, routes
from tests.api.test_deployments import SERVER, config, deployment, until_there
from tests.databases import sqlite
from tests.engine.conftest import HeldClock
from tests.tables import few
from tests.waiting import eventually

if find_spec("keystonemiddleware") is None:
    pytest.skip("keystonemiddleware is not installed (extra `keystone`)", allow_module_level=True)

DOMAIN = {
    "stack_user_domain_name": "agents",
    "stack_domain_admin": "agents-admin",
    "stack_domain_admin_password": "pw",
}
HANDLE = {"type": "OS::Heat::WaitConditionHandle", "properties": {"signal_transport": "HEAT_SIGNAL"}}
PEOPLE = {"mia": ("member",), "rob": ("reader",), "bot": ("heat_stack_user",)}


class Place:
    """A server with a simulated stack domain, and a Keystone for its users."""

    def __init__(self, folder: Path, keystone: Keystone, **settings: Any) -> None:
        self.folder, self.keystone = folder, keystone
        self.settings = Settings(
            **{  # type: ignore[arg-type]
                "database": sqlite(folder),
                "auth": Auth.KEYSTONE,
                "keystone": {"auth_url": keystone.url, "username": "heat", "password": "pw", "project_name": "demo"},
                "cloud": "simulated",
                **DOMAIN,
                **settings,
            }
        )
        self.server = wiring.embedded(self.settings, clock=HeldClock())

    @property
    def cloud(self) -> SimulatedProject:
        return cast(SimulatedProject, self.server.components.engine_services.services.clouds.of(ADMIN).cloud)

    def found(self) -> dict[str, str]:
        """The users and projects in the stack domain: id → name."""
        (domain,) = (one for one in self.cloud.simulation.all("identity.domain").values() if one["name"] == "agents")
        kinds = ("identity.user", "identity.project")
        every = [one for kind in kinds for one in self.cloud.simulation.all(kind).values()]
        return {str(one["id"]): str(one["name"]) for one in every if one["domain_id"] == domain["id"]}

    def person(self, name: str) -> Heat:
        return Heat(self.server.app, "demo-id", {"X-Auth-Token": self.keystone.issue(name, "demo")})

    def agent(self, path: str, name: str) -> Heat:
        """Context of a resource's account in its project."""
        stack_id = path.rpartition("/")[2]
        kept = next(one for one in self.server.store.accounts.of_stack(stack_id) if one.resource_name == name)
        token = self.keystone.issue("bot", "demo")
        self.keystone.tokens[token]["user"]["id"] = kept.user_id
        self.keystone.tokens[token]["project"]["id"] = kept.project_id
        return Heat(self.server.app, kept.project_id or "", {"X-Auth-Token": token})


def operator_makes(place: Place) -> None:
    for verb, name in (("create_domain", "agents"), ("create_role", "heat_stack_user")):
        place.cloud.simulation.verbs[f"identity.{verb}"](place.cloud, name=name)


@pytest.fixture(scope="module")
def keystone() -> Iterator[Keystone]:
    accounts = {name: Account("pw", {"demo": roles}) for name, roles in PEOPLE.items()}
    keystone = Keystone({**accounts, "heat": Account("pw", {"demo": ("admin",)})})
    yield keystone
    keystone.close()


@pytest.fixture
def begin(tmp_path: Path, keystone: Keystone) -> Iterator[Callable[..., Place]]:
    """`begin(faults=[…])` → a server on a simulated cloud with these faults."""
    places: list[Place] = []

    def begin(**scenario: Any) -> Place:
        file = tmp_path / "simulation.yaml"
        file.write_text(json.dumps(scenario))
        places.append(Place(tmp_path, keystone, of_features=(SimulatorSettings(simulation=str(file)),)))
        operator_makes(places[-1])
        return places[-1]

    yield begin
    for place in places:
        place.server.close()
        assert place.server.store.inconsistencies(place.server.components.clock.now(), 0.0) == []
        place.server.store.close()


@pytest.fixture
def place(begin: Callable[..., Place]) -> Place:
    return begin()


EVERYTHING = {
    "server": SERVER,
    "other": SERVER,
    "plain": {"type": "OS::Heat::DeployedServer"},
    "c": config(),
    "d": deployment(signal_transport="HEAT_SIGNAL"),
    "e": deployment(signal_transport="NO_SIGNAL"),
    "handle": HANDLE,
}
LONG = 10**6
"""Minutes that no test reaches: time passes by the hour while agents are asked."""
WITH = ("d", "handle", "other", "server")
"""Those of them that have accounts."""


def accounts(place: Place, path: str) -> list[str]:
    return sorted(one.resource_name for one in place.server.store.accounts.of_stack(path.rpartition("/")[2]))


def deployed(place: Place, path: str) -> dict[str, Any]:
    """The inputs of what the server is given, by name, as its agent reads them."""
    until_there(place.person("mia"), path)

    def inputs() -> dict[str, Any] | None:
        told = place.agent(path, "server").get(f"{path}/resources/server/metadata")["metadata"]
        found = [{each["name"]: each["value"] for each in one["inputs"]} for one in told["deployments"]]
        return next((one for one in found if one.get("deploy_signal_transport") == "HEAT_SIGNAL"), None)

    return cast(dict[str, Any], eventually(inputs))


@pytest.mark.slow
def test_who_needs_an_account_has_one_as_long_as_the_resource_is_there(place: Place) -> None:
    mia = place.person("mia")
    path = mia.create(template(**EVERYTHING), wait=False, timeout_mins=LONG)
    inputs, stack_id = deployed(place, path), path.rpartition("/")[2]
    eventually(lambda: accounts(place, path) == [*WITH])

    kept = {one.resource_name: one for one in place.server.store.accounts.of_stack(stack_id)}
    (project_id,) = {one.project_id for one in kept.values()}
    assert place.found() == {project_id: stack_id, **{one.user_id: one.physical_name for one in kept.values()}}
    for one in kept.values():
        assert place.cloud.simulation.all("identity.user")[str(one.user_id)]["_password"] == one.password
        roles = place.cloud.call("identity.role_assignments", user_id=one.user_id)
        assert [each["scope"] for each in roles] == [{"project": {"id": project_id}}]  # type: ignore[union-attr, index]
    assert mia.get(path)["stack"]["stack_user_project_id"] == project_id
    (listed,) = mia.get(f"/stacks?stack_user_project_id={project_id}")["stacks"]
    assert listed["stack_user_project_id"] == project_id

    # Where agents look for it.
    agent = place.agent(path, "server")
    told = agent.get(f"{path}/resources/server/metadata")["metadata"]["os-collect-config"]["heat"]
    assert told == {
        "auth_url": place.keystone.url, "user_id": kept["server"].user_id, "password": kept["server"].password,
        "project_id": project_id, "stack_id": f"s/{stack_id}", "resource_name": "server",
    }  # fmt: skip
    assert (inputs["deploy_user_id"], inputs["deploy_password"]) == (kept["d"].user_id, kept["d"].password)
    assert (inputs["deploy_auth_url"], inputs["deploy_project_id"]) == (place.keystone.url, project_id)
    assert "deploy_signal_id" not in inputs

    # Its answer, with its own account; then an update after which fewer have one.
    place.agent(path, "d").call("POST", f"{path}/resources/d/signal", {"deploy_status_code": 0}, code=200)
    mia.settle(path, "CREATE_COMPLETE")
    other = place.agent(path, "other")
    rest = {"server": SERVER, "other": {"type": "OS::Heat::DeployedServer"}}  # another transport; and the rest goes
    mia.call("PUT", path, {"template": template(**rest)}, code=202)
    mia.settle(path, "UPDATE_COMPLETE")
    assert accounts(place, path) == ["other", "server"]
    told = other.get(f"{path}/resources/other/metadata")["metadata"]["os-collect-config"]  # it must hear of its change
    assert told["collectors"] == ["cfn", "local"]
    assert place.found().keys() == {kept["other"].user_id, kept["server"].user_id, project_id}
    mia.call("PUT", path, {"template": template(server=SERVER)}, code=202)
    mia.settle(path, "UPDATE_COMPLETE")
    assert place.found().keys() == {kept["server"].user_id, project_id}
    mia.call("DELETE", path, code=204)
    mia.settle(path, "DELETE_COMPLETE")
    assert place.found() == {}
    agent.call("GET", f"{path}/resources/server/metadata", code=403)


@pytest.mark.slow
def test_an_account_opens_its_own_resource_and_nothing_else(place: Place) -> None:
    mia = place.person("mia")
    path = mia.create(template(**EVERYTHING), wait=False, timeout_mins=LONG)
    elsewhere = mia.create(template(server=SERVER, v=value()), "t")
    server_id = deployed(place, path)["deploy_server_id"]
    agent = place.agent(path, "server")
    (_, _, stack, stack_id), (_, _, _, other_id) = path.split("/"), elsewhere.split("/")
    own = {"stack_name": stack, "stack_id": stack_id, "resource_name": "server", "server_id": server_id}
    other_server = mia.get(f"{path}/resources/other")["resource"]["physical_resource_id"]
    others: list[dict[str, str]] = [
        {"resource_name": "other", "server_id": other_server},
        {"stack_id": other_id}, {"stack_name": "t"}, {"stack_name": "t", "stack_id": other_id, "server_id": "x"},
    ]  # fmt: skip
    own_project, theirs = agent.root.rpartition("/")[2], "demo-id"
    for route in routes(place.server.app):
        method, form = route.split()
        if route in OPEN:
            continue
        names = set(re.findall(r"\{(\w+)\}", form)) - {"project"}
        lookup = re.fullmatch(re.escape(P) + r"/stacks/\{stack_name\}(/\w+)?", form) is not None
        for project in (own_project, theirs):  # the latter is where lookups lead to
            for named in ({}, *others):
                values = {**dict.fromkeys(names, "x"), **own, **named, "project": project}
                changed = any(values[name] != own.get(name) for name in names)
                answer = agent.call(method, form.format_map(values))
                may = (lookup or route in MACHINES) and not changed
                assert (answer.status_int != 403) is may, f"{route} {values}: {answer.text}"
    assert agent.call("GET", f"/stacks/{stack}", code=302).location.endswith(f"/demo-id/stacks/{stack}/{stack_id}")
    arn = f"arn:openstack:heat::{own_project}:stacks"
    agent.call("GET", f"/stacks/{arn}/{stack}/{stack_id}", code=302)
    agent.call("GET", f"/stacks/{arn}/t/{other_id}", code=403)
    assert agent.of("other").fault("GET", f"{path}/resources/server/metadata", code=403)[0] == "HTTPForbidden"
    # The role alone opens nothing here: whoever has it was made for no resource.
    place.person("bot").call("GET", f"{path}/resources/server/metadata", code=403)
    place.person("bot").call("POST", f"{path}/resources/d/signal", {}, code=403)
    mia.call("POST", f"{path}/resources/d/signal", {}, code=200)


@pytest.mark.slow
def test_the_account_of_an_object_that_has_left_its_stack_opens_nothing(place: Place) -> None:
    """Not even a new resource of that name. Keystone forgets it with the stack."""
    mia = place.person("mia")
    path = mia.create(template(server=SERVER, other=SERVER))
    agent, metadata = place.agent(path, "server"), f"{path}/resources/server/metadata"
    agent.get(metadata)
    asked = {"resources": ["server"]}
    digest = mia.call("PATCH", f"{path}/preview?plan=true", {"detach": asked}).json["plan"]["digest"]
    mia.call("POST", f"{path}/actions", {"detach": {**asked, "plan_digest": digest}}, 200)
    agent.call("GET", metadata, code=403)
    mia.call("PUT", path, {"template": template(server=SERVER, other=SERVER)}, code=202)
    mia.settle(path, "UPDATE_COMPLETE")
    agent.call("GET", metadata, code=403)
    mia.call("DELETE", path, code=204)
    mia.settle(path, "DELETE_COMPLETE")
    assert place.found() == {}


@pytest.mark.slow
def test_its_password_is_told_to_the_agent_only(place: Place) -> None:
    mia, rob = place.person("mia"), place.person("rob")
    shown = {"outputs": {"o": {"value": {"get_attr": ["server", "os_collect_config", "heat", "user_id"]}}}}
    uses = value({"get_attr": ["server", "os_collect_config"]})
    path = mia.create({**template(**EVERYTHING, uses=uses), **shown}, wait=False, timeout_mins=LONG)
    inputs = deployed(place, path)
    until_there(mia, path, "uses")
    passwords = [one.password for one in place.server.store.accounts.of_stack(path.rpartition("/")[2])]
    assert len(passwords) == len(WITH) and inputs["deploy_password"] in passwords

    told = mia.get(f"{path}/resources/server/metadata")
    assert told["metadata"]["os-collect-config"]["heat"]["password"] in passwords, "who may signal sets agents up"
    places = [
        f"{path}/resources?with_detail=True&nested_depth=5", f"{path}/resources/server", f"{path}/resources/handle",
        f"{path}/resources/uses", f"{path}/events", "/software_deployments", "/actions", path,
    ]  # fmt: skip
    for one in rob.get("/software_deployments")["software_deployments"]:
        places += [f"/software_deployments/{one['id']}", f"/software_configs/{one['config_id']}"]
    server_id = inputs["deploy_server_id"]
    looks = [*places, f"{path}/resources/server/metadata", f"/software_deployments/metadata/{server_id}"]
    for who, seen in ((mia, places), (rob, looks)):
        for where in seen:
            text = who.call("GET", where, code=200).text
            assert [password for password in passwords if password in text] == [], where
    again = json.dumps({"template": {**template(**EVERYTHING, uses=uses, more=uses)}})
    preview = mia.call("PUT", f"{path}/preview", again.encode())
    assert not any(password in preview.text for password in passwords)
    kept = b"".join(file.read_bytes() for file in place.folder.glob("heat.db*"))
    assert [password for password in passwords if password.encode() in kept] == []


@pytest.mark.slow
def test_a_failure_that_quotes_the_password_of_an_account_made_by_the_same_action(
    begin: Callable[..., Place], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "heatlite")
    place = begin(faults=[{"verb": "network.create_network", "number": 1, "raises": "conflict"}])
    mia = place.person("mia")
    told = {"get_attr": ["server", "os_collect_config", "heat", "password"]}
    quoting = {"type": "OS::Heat::SoftwareDeployment", "properties": {"server": "x", "config": told}}
    net = {"type": "OS::Neutron::Net"}  # what may be said is looked at before there is an account
    path = mia.create(template(net=net, server={**SERVER, "depends_on": "net"}, quoting=quoting))
    mia.settle(path, "CREATE_FAILED")
    (kept,) = place.server.store.accounts.of_stack(path.rpartition("/")[2])
    reason = mia.get(f"{path}/resources/quoting")["resource"]["resource_status_reason"]
    assert "Software config (******) could not be found" in reason
    for where in (path, f"{path}/resources", f"{path}/events", "/actions"):
        assert kept.password not in mia.call("GET", where, code=200).text
    assert kept.password not in caplog.text


@pytest.mark.slow
def test_a_server_boots_with_its_account(place: Place) -> None:
    mia = place.person("mia")
    properties = {"flavor": "m1.nano", "image": "cirros", "user_data_format": "SOFTWARE_CONFIG"}
    polls = {**properties, "software_config_transport": "POLL_SERVER_HEAT"}
    server = {"type": "OS::Nova::Server", "properties": polls}
    raw = {**server, "properties": {**polls, "user_data_format": "RAW"}}  # no agent comes with that
    path = mia.create(template(server=server, raw=raw))
    mia.settle(path, "CREATE_COMPLETE")
    (kept,) = place.server.store.accounts.of_stack(path.rpartition("/")[2])
    (text,) = filter(None, (
        one["OS-EXT-SRV-ATTR:user_data"] for one in place.cloud.simulation.all("compute.server").values()
    ))  # fmt: skip
    message = message_from_bytes(b64decode(str(text)))
    (told,) = (part for part in message.walk() if part.get_filename() == "cfn-init-data")
    heat = json.loads(told.get_payload(decode=True))["os-collect-config"]["heat"]
    assert (heat["user_id"], heat["password"]) == (kept.user_id, kept.password)
    mia.call("DELETE", path, code=204)
    mia.settle(path, "DELETE_COMPLETE")
    assert place.found() == {}


@pytest.mark.slow
def test_answers_of_keystone_are_lost(begin: Callable[..., Place]) -> None:
    """The object of then is found again by its name."""
    verbs = ("create_project", "create_user", "assign_project_role_to_user", "delete_user", "delete_project")
    place = begin(faults=[{"verb": f"identity.{verb}", "number": 1, "raises": "lost"} for verb in verbs])
    mia = place.person("mia")
    path = mia.create(template(server=SERVER))
    mia.settle(path, "CREATE_COMPLETE")
    (kept,) = place.server.store.accounts.of_stack(path.rpartition("/")[2])
    assert sorted(place.found()) == sorted([str(kept.user_id), str(kept.project_id)])
    assert place.cloud.simulation.all("identity.user")[str(kept.user_id)]["_password"] == kept.password
    assert place.agent(path, "server").get(f"{path}/resources/server/metadata")
    mia.call("DELETE", path, code=204)
    mia.settle(path, "DELETE_COMPLETE")
    assert place.found() == {}


@pytest.mark.slow
def test_an_attempt_that_has_lost_its_action_leaves_no_account(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another client has removed everything in the meantime, as far as it could know."""
    verbs = cast(dict[str, Any], place.cloud.simulation.verbs)
    for verb, tables in (("create_project", ("account", "account_project")), ("create_user", ("account",))):

        def late(*given: Any, tables: Any = tables, carry_out: Any = verbs[f"identity.{verb}"], **more: Any) -> Any:
            made = carry_out(*given, **more)
            with place.server.store.transaction():
                for table in tables:
                    place.server.store.database.write(f"DELETE FROM {table}")
            return made

        monkeypatch.setitem(verbs, f"identity.{verb}", late)
        mia = place.person("mia")
        path = mia.create(template(server=SERVER), verb)
        mia.settle(path)
        monkeypatch.undo()
        stays = [path.rpartition("/")[2]] if verb == "create_user" else []
        assert [*place.found().values()] == stays, "the project of the stack that is there"
        mia.call("DELETE", path, code=204)
        mia.settle(path, "DELETE_COMPLETE")
        assert place.found() == {}


@pytest.mark.slow
def test_what_failed_and_what_stays_behind_has_no_account_after_the_stack(place: Place) -> None:
    """Also in a group of nested stacks, and after a crash between making and writing."""
    mia = place.person("mia")
    failing = {"type": "OS::Heat::TestResource", "properties": {"fail": True}, "depends_on": "group"}
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": SERVER}}
    kept = {**SERVER, "deletion_policy": "Retain"}
    path = mia.create(template(group=group, kept=kept, handle=HANDLE, boom=failing))
    mia.settle(path, "CREATE_FAILED")
    assert len(place.found()) == 5, "three servers, a handle, and one project"
    with place.server.store.transaction():  # as if nobody had heard of it
        place.server.store.database.write("UPDATE account SET user_id = NULL, project_id = NULL")
        place.server.store.database.write("UPDATE account_project SET project_id = NULL")
    mia.call("DELETE", path, code=204)
    mia.settle(path, "DELETE_COMPLETE")
    assert place.found() == {}


@pytest.mark.slow
def test_a_stack_from_before_there_was_a_domain(tmp_path: Path, keystone: Keystone) -> None:
    before = Place(tmp_path, keystone, **dict.fromkeys(DOMAIN))
    path = before.person("mia").create(template(old=SERVER))
    told = before.person("mia").get(f"{path}/resources/old/metadata")["metadata"]["os-collect-config"]["heat"]
    assert "password" not in told
    before.person("bot").call("GET", f"{path}/resources/old/metadata", code=200)  # given by hand, as it was
    before.server.close()
    place = Place(tmp_path, keystone)
    operator_makes(place)
    mia = place.person("mia")
    mia.call("PUT", path, {"template": template(old=SERVER, new=SERVER)}, code=202)
    mia.settle(path, "UPDATE_COMPLETE")
    assert accounts(place, path) == ["new"]
    stack = place.server.store.stacks.get(path.rpartition("/")[2])
    assert stack is not None and stack.sealed
    mia.call("DELETE", path, code=204)
    mia.settle(path, "DELETE_COMPLETE")
    assert place.found() == {}
    place.server.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    few(
        [
            ({"stack_domain_admin_password": None}, "stack_domain_admin and"),
            ({"stack_user_domain_name": None}, "stack_domain_admin and"),
            ({"auth": Auth.TOKENS, "tokens_file": "x"}, "need auth = keystone, and a cloud"),
            ({"cloud": None}, "need auth = keystone, and a cloud"),
        ]
    ),
)
def test_settings_that_make_no_sense(tmp_path: Path, keystone: Keystone, settings: Any, message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        Place(tmp_path, keystone, **settings)
