"""A cloud through openstacksdk: answers, missing and wrong ones, and discovery."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heatlite import wiring
from heatlite.api.faults import status_of
from heatlite.clients import cloud as errors
from heatlite.clients.connection import Connections, RealCloud
from heatlite.clients.finders import Finders
from heatlite.core.config import BadSetting, Settings
from heatlite.core.runtime.extras import MissingLibrary
from heatlite.serving import preflight
from tests.clouds.services import Answer, FakeCloud, clouds_yaml, fake_cloud
from tests.resource_types import REST

try:
    import openstack  # noqa: F401
except ImportError:
    pytest.skip("openstacksdk is not installed: pip install -e '.[openstack]'", allow_module_level=True)


NET = {"id": "n1", "name": "net", "admin_state_up": True, "router:external": False, "subnets": [], "tags": []}
REQUEST = "req-11111111-2222-3333-4444-555555555555"


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No cloud of the machine is found."""
    for name in [name for name in os.environ if name.startswith("OS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    monkeypatch.chdir(tmp_path)


Opened = Callable[..., tuple[RealCloud, FakeCloud]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Opened]:
    """`opened(network)` → a cloud with that function as its network service."""
    ends = []

    def open_one(network: Any, timeout: float = 240.0, **entry: Any) -> tuple[RealCloud, FakeCloud]:
        context = fake_cloud(network)
        fake = context.__enter__()
        ends.append(context)
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds_yaml(tmp_path, fake=fake.entry(**entry))))
        return Connections("fake", timeout, REST).of("p"), fake

    yield open_one
    for context in ends:
        context.__exit__(None, None, None)


def saying(answer: Answer | None) -> Any:
    """A service that always says the same."""
    return lambda method, path, body: answer


def neutron(status: int, text: str, kind: str = "SomeError") -> Answer:
    return Answer(status, {"NeutronError": {"type": kind, "message": text, "detail": ""}})


# -- what services say ---------------------------------------------------------------------------------


def test_names_are_the_services_own_and_nothing_is_made_up(opened: Opened) -> None:
    cloud, _ = opened(saying(Answer(201, {"network": NET})))
    made = cloud.call("network.create_network", name="net")
    assert made == NET


def test_views_of_a_cloud_share_their_connections(opened: Opened) -> None:
    """One view per stack: idle connections would exhaust those of a service."""
    from keystoneauth1.identity import v3

    _, fake = opened(saying(Answer(200, {"networks": [NET]})))
    connections = Connections("fake", 240.0)
    views = [connections.by(lambda own: v3.Password(**own)) for _ in range(5)]
    for _ in range(2):
        for view in views:
            assert view.call("network.networks") == [NET]
        del views[0]
    assert len(fake.connections) == 1


def test_a_list_is_a_list_and_nothing_is_null(opened: Opened) -> None:
    found = Answer(200, {"networks": [NET]})

    def network(method: str, path: str, body: object) -> Answer:
        if method == "DELETE":
            return Answer(204, "")
        return neutron(404, "no such id") if path.startswith("/networks/") else found

    cloud, _ = opened(network)
    assert cloud.call("network.networks", name="net") == [NET]
    assert cloud.call("network.find_network", "net") == NET
    assert cloud.call("network.delete_network", "n1") is None


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (neutron(404, "Network x could not be found."), errors.CloudNotFound, "Network x could not be found."),
        (neutron(409, "Unable to complete, in use."), errors.CloudConflict, "Unable to complete, in use."),
        (neutron(409, "Quota exceeded for resources: ['network']."), errors.OverQuota, "Quota exceeded for"),
        (Answer(403, {"forbidden": {"message": "Quota exceeded for cores: Requested 1"}}), errors.OverQuota, "cores"),
        (Answer(413, {"overLimit": {"message": "Maximum number of volumes allowed (1)"}}), errors.OverQuota, "(1)"),
        (neutron(400, "Invalid input for cidr."), errors.CloudError, "Invalid input for cidr."),
        (neutron(403, "disallowed by policy"), errors.CloudError, "disallowed by policy"),
        (
            neutron(403, "Policy doesn't allow os_compute_api:os-quota-sets:update to be performed."),
            errors.CloudError,
            "os-quota-sets",
        ),
        (neutron(500, "Request Failed: internal server error"), errors.CloudUnavailable, "internal server error"),
        (neutron(501, "Not Implemented"), errors.CloudError, "Not Implemented"),
        (Answer(503, "<html>No server is available</html>", "text/html"), errors.CloudUnavailable, "No server"),
        (neutron(429, "Slow down"), errors.CloudUnavailable, "Slow down"),
        (  # as Barbican and Zaqar say it
            Answer(400, {"code": 400, "title": "Bad Request", "description": "Invalid payload content type"}),
            errors.CloudError,
            "Invalid payload content type",
        ),
        (  # as Blazar says it
            Answer(400, {"error_code": 400, "error_message": "Missing parameter min", "error_name": 400}),
            errors.CloudError,
            "Missing parameter min",
        ),
        (Answer(400, ["a list"]), errors.CloudError, "a list"),
    ],
)  # fmt: skip
def test_a_refusal_has_its_kind_and_the_services_words(
    opened: Opened, answer: Answer, kind: type[errors.CloudError], text: str
) -> None:
    cloud, _ = opened(saying(answer))
    with pytest.raises(errors.CloudError) as refused:
        cloud.call("network.create_network", name="net")
    assert type(refused.value) is kind
    assert text in refused.value.message
    assert refused.value.message.startswith("network.create_network: ")
    assert f"(HTTP {answer.status}) (request {REQUEST})" in refused.value.message


def test_two_of_a_name_are_told_apart_by_id(opened: Opened) -> None:
    twins = [NET, {**NET, "id": "n2"}]

    def network(method: str, path: str, body: object) -> Answer:
        return neutron(404, "no such id") if path.startswith("/networks/") else Answer(200, {"networks": twins})

    cloud, _ = opened(network)
    with pytest.raises(errors.Ambiguous, match="More than one network is called 'net': give the id"):
        cloud.call("network.find_network", "net")


# -- no answer, or one that makes no sense ---------------------------------------------------------------


def test_a_service_that_hangs_is_left_after_the_timeout_once(opened: Opened) -> None:
    cloud, fake = opened(saying(Answer(200, {"network": NET}, seconds=240)), timeout=3.0)
    with pytest.raises(errors.CloudUnavailable, match=r"/networks/n1 has not answered in time"):
        cloud.call("network.get_network", "n1")
    assert fake.calls == [("GET", "/networks/n1")]


def test_a_service_that_hangs_from_the_first_question_on_is_not_asked_seven_times(opened: Opened) -> None:
    cloud, fake = opened(saying(Answer()), timeout=3.0)
    fake.slow = 240.0
    with pytest.raises(errors.CloudUnavailable, match="has not answered in time"):
        cloud.call("network.get_network", "n1")
    assert fake.discoveries == 1
    fake.slow = 0.0
    fake.network = saying(Answer(200, {"network": NET}))
    assert cloud.call("network.get_network", "n1") == NET


def test_a_service_that_hangs_up(opened: Opened) -> None:
    cloud, _ = opened(saying(None))
    with pytest.raises(errors.CloudUnavailable, match=r"Unable to establish connection to .*/networks/n1"):
        cloud.call("network.get_network", "n1")


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, "<html>Welcome to nginx!</html>", "text/html"),
        Answer(200, '{"network": {"id": "n', "application/json"),
        Answer(200, [NET]),
        Answer(200, None),
        Answer(200, {"network": "n1"}),
        Answer(200, "\x00\x01", ""),
    ],
)
def test_garbage_is_no_answer(opened: Opened, answer: Answer) -> None:
    cloud, _ = opened(saying(answer))
    for verb in ("get_network", "create_network", "find_network", "networks"):
        with pytest.raises(errors.CloudUnavailable):
            cloud.call(f"network.{verb}", *(["n1"] if verb in ("get_network", "find_network") else []))


def test_a_create_that_is_answered_without_an_object_may_have_happened(opened: Opened) -> None:
    cloud, _ = opened(saying(Answer(201, {})))
    with pytest.raises(errors.CloudUnavailable, match="without the object that it was to make"):
        cloud.call("network.create_network", name="net")


def test_what_the_catalog_lacks_is_named(opened: Opened) -> None:
    cloud, _ = opened(None)
    with pytest.raises(errors.NoService, match="the cloud has no network service"):
        cloud.call("network.networks")
    with pytest.raises(errors.NoService, match="the cloud has no object-store service"):
        cloud.call("object_store.containers")


def test_a_cloud_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with fake_cloud(None) as fake:
        entry = fake.entry()
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds_yaml(tmp_path, gone=entry)))
    cloud = Connections("gone", 1.0).of("p")
    with pytest.raises(errors.CloudUnavailable, match=entry["auth"]["auth_url"]):
        cloud.call("network.networks")


# -- who asks --------------------------------------------------------------------------------------------


def test_a_wrong_password(opened: Opened) -> None:
    cloud, fake = opened(saying(Answer(200, {"network": NET})))
    fake.password = "another"
    text = r"does not accept the credentials: The request you have made requires authentication\. \(HTTP 401\) \(req"
    with pytest.raises(errors.CredentialsRefused, match=text) as refused:
        cloud.call("network.get_network", "n1")
    assert status_of(refused.value) == 503  # it is the operator who can mend it
    with pytest.raises(errors.CredentialsRefused):
        Finders(cloud, lambda: 0.0).missing("neutron.network", "net")


def test_a_token_that_does_not_hold_any_more_is_replaced(opened: Opened) -> None:
    cloud, fake = opened(saying(Answer(200, {"network": NET})))
    cloud.call("network.get_network", "n1")
    fake.tokens += 1  # the one that was given out does not hold any more
    assert cloud.call("network.get_network", "n1") == NET
    assert fake.tokens == 3


# -- where a cloud is found --------------------------------------------------------------------------------


def variables(fake: FakeCloud) -> dict[str, str]:
    auth = {f"OS_{name.upper()}": value for name, value in fake.entry()["auth"].items()}
    return {**auth, "OS_REGION_NAME": "RegionOne"}


def test_the_variables_of_the_environment_are_a_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_cloud(saying(Answer(200, {"networks": [NET]}))) as fake:
        for name, value in variables(fake).items():
            monkeypatch.setenv(name, value)
        assert Connections("envvars", 240.0).of("p").call("network.networks") == [NET]


def test_the_variables_do_not_change_a_cloud_that_is_named(monkeypatch: pytest.MonkeyPatch, opened: Opened) -> None:
    _, fake = opened(saying(Answer(200, {"networks": [NET]})))
    for name, value in variables(fake).items():
        monkeypatch.setenv(name, value + "-other")
    assert Connections("fake", 240.0).of("p").call("network.networks") == [NET]


LOOK = """
from heatlite.clients.connection import Connections
print(Connections("mine", 240.0).open()._connection.config.get_auth_args()["auth_url"])
"""


@pytest.mark.parametrize("place", [".", "home/.config/openstack"])
def test_clouds_yaml_lies_here_or_in_the_users_configuration(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    clouds_yaml(tmp_path / place, mine=FakeCloud(12345, None).entry())
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}  # the SDK looks once in a process
    done = subprocess.run([sys.executable, "-c", LOOK], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "http://127.0.0.1:12345/identity/v3\n"


@pytest.mark.parametrize(
    ("entries", "name", "text"),
    [
        ({}, "nope", "Cloud nope was not found"),
        ({}, "envvars", "envvars"),
        ({"half": {"auth": {"username": "u"}}}, "half", "auth_url"),
        ({"odd": {"auth_type": "magic", "auth": {}}}, "odd", "magic"),
    ],
)
def test_a_cloud_that_is_not_described_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: dict[str, Any], name: str, text: str
) -> None:
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds_yaml(tmp_path, **entries)))
    settings = Settings(database=f"sqlite:///{tmp_path}/h.db", cloud=name)
    with pytest.raises(BadSetting):
        preflight.check_servable(settings)
    with pytest.raises(BadSetting, match=rf"cloud '{name}': .*{text}"):
        wiring.embedded(settings)
    with pytest.raises(BadSetting):
        wiring.api(settings)
    wiring.reader(settings).close()  # what is there can be looked at


def test_a_file_that_is_no_yaml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "bad.yaml").write_text("clouds: [")
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "bad.yaml"))
    with pytest.raises(BadSetting, match=r"Cloud x was not found"):
        Connections("x", 5.0).open()
    assert "bad.yaml" in caplog.text  # the SDK tells the log


def test_without_the_sdk_it_is_told_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openstack.config", None)
    with pytest.raises(MissingLibrary, match=r"The cloud x needs .*\[openstack\]"):
        Connections("x", 5.0).open()


START = """
import sys
from heatlite import wiring
from heatlite.serving import preflight
from heatlite.core.config import Settings
wiring.embedded(Settings(database="sqlite:///" + sys.argv[1])).close()
print(sorted({"openstack", "keystoneauth1"} & sys.modules.keys()))
"""


def test_who_needs_no_cloud_does_not_wait_for_the_sdk(tmp_path: Path) -> None:
    command = [sys.executable, "-c", START, str(tmp_path / "h.db")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_which_services_a_catalog_has(opened: Opened) -> None:
    cloud, _ = opened(saying(Answer(body={})), block_storage_endpoint_override="http://127.0.0.1:9/v3")
    assert [cloud.has(name) for name in ("network", "identity", "compute", "block_storage")] == [
        True, True, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["", "/v2"])
@pytest.mark.parametrize("verb", ["dns.zones", "image.images"])
def test_a_service_is_asked_at_its_address_in_clouds_yaml(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verb: str, path: str
) -> None:
    service, _, noun = verb.partition(".")

    def answer(method: str, asked: str, body: object) -> Answer:
        if asked.strip("/") == service:
            link = {"rel": "self", "href": f"/{service}/v2/"}
            return Answer(300, {"versions": [{"id": "v2", "status": "CURRENT", "links": [link]}]})
        if asked.strip("/") == f"{service}/v2":
            return Answer(401, "", "text/html")  # as Glance does
        return Answer(200, {noun: []})

    with fake_cloud(answer) as fake:
        entry = fake.entry(**{f"{service}_endpoint_override": f"{fake.url}/{service}{path}"})
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds_yaml(tmp_path, fake=entry)))
        assert Connections("fake", 240.0).of("p").call(verb) == []
        assert fake.calls[-1] == ("GET", f"/{service}/v2/{noun}")


def test_a_version_told_as_text_is_no_garbage() -> None:
    """Octavia has text at the root of its API, where the SDK asks for versions."""
    from requests import Response

    from heatlite.clients.connection import _Garbage, _look_at

    answer = Response()
    answer.status_code, answer._content, answer.url = 200, b'"v2"', "http://balancer/v2.0/"
    replaced = _look_at(answer)
    assert replaced is not None
    assert (replaced.json(), replaced.status_code, replaced.url) == ({}, 200, answer.url)
    answer._content, answer.url = b'"v2"', "http://balancer/v2.0/lbaas/pools"
    with pytest.raises(_Garbage, match="neither an object nor a list"):
        _look_at(answer)
