"""`auth` = ``keystone``: middleware, Keystone over HTTP, `openstack` by password."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from heatlite import wiring
from heatlite.core.config import Auth, BadSetting, Settings
from heatlite.core.runtime.bulkhead import MustWait, waits
from heatlite.engine.admission.caller_context import restore_context
from heatlite.serving import preflight
from tests.acceptance.conftest import need
from tests.acceptance.keystone import Account, Keystone
from tests.acceptance.processes import START_SECONDS, TEMPLATES, OpenStack, Server
from tests.api.conftest import Heat, template, value
from tests.tables import sampled
from tests.waiting import eventually

pytestmark = pytest.mark.slow

if find_spec("keystonemiddleware") is None or find_spec("oslo_policy") is None:
    pytest.skip("keystonemiddleware or oslo.policy is not installed (extra `keystone`)", allow_module_level=True)

ACCOUNT = {
    "username": "heat",
    "password": "of-heat",
    "project_name": "service",
    "http_connect_timeout": "240",
    "http_request_max_retries": "0",
}


@pytest.fixture
def keystone() -> Iterator[Keystone]:
    found = Keystone(
        {
            "heat": Account("of-heat", {"service": ("service", "admin")}),
            "mia": Account("of-mia", {"demo": ("member", "reader"), "other": ("reader",)}),
            "ada": Account("of-ada", {"admin": ("admin", "member", "reader")}),
            "max": Account("of-max", {"other": ("member", "reader")}),
        }
    )
    yield found
    found.close()


Serve = Callable[..., wiring.Embedded]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a server that asks a Keystone."""
    started = []

    def start(url: str, table: Mapping[str, str] = {}, **settings: Any) -> wiring.Embedded:
        chosen = settings_of(tmp_path, {"auth_url": url, **ACCOUNT, **table}, **settings)
        started.append(wiring.embedded(chosen))
        return started[-1]

    yield start
    for one in started:
        one.close()


def settings_of(folder: Path, table: dict[str, str], **more: Any) -> Settings:
    database = f"sqlite:///{folder / 'heat.db'}"
    return Settings(database=database, port=0, auth=Auth.KEYSTONE, keystone=table, **more)


def as_(server: wiring.Embedded, token: str | None, project: str = "demo-id") -> Heat:
    return Heat(server.app, project, {} if token is None else {"X-Auth-Token": token})


def test_a_token_opens_its_project(serve: Serve, keystone: Keystone) -> None:
    server = serve(keystone.url)
    mia = as_(server, keystone.issue("mia", "demo"))
    path = mia.create(template(a=value()))
    assert mia.get(path)["stack"]["stack_owner"] == "mia"
    assert mia.of("other-id").fault("GET", path, code=403)[0] == "HTTPForbidden"
    stranger = keystone.issue("max", "other")
    as_(server, stranger).call("GET", path, code=403)
    as_(server, stranger, "other-id").call("GET", path, code=404)
    as_(server, keystone.issue("mia", "other"), "other-id").call("POST", "/stacks", {}, code=403)
    as_(server, keystone.issue("mia", None)).call("GET", "/stacks", code=403)
    assert as_(server, keystone.issue("ada", "admin")).get(path)["stack"]["stack_owner"] == "mia"
    for _ in range(10):
        mia.get("/stacks")
    # what is known is not asked again: one look for each token
    assert keystone.asked["GET /v3/auth/tokens"] == 5
    assert keystone.asked["POST /v3/auth/tokens"] == 1


@pytest.mark.parametrize("headers", [{}, {"X-Auth-Token": "zz"}, {"X-Auth-Token": ""}, {"X-Auth-Token": "\xe4"}])
def test_no_token_or_a_bad_one_is_401(serve: Serve, keystone: Keystone, headers: dict[str, str]) -> None:
    pretended = {
        "X-Identity-Status": "Confirmed", "X-Project-Id": "demo-id", "X-Roles": "admin", "X-User-Name": "mia",
        "X-User-Id": "mia-id", "X-Service-Identity-Status": "Confirmed",
    }  # fmt: skip
    server = serve(keystone.url)
    answer = as_(server, None).call("GET", "/stacks", headers={**pretended, **headers}, code=401)
    assert answer.headers["WWW-Authenticate"] == f'Keystone uri="{keystone.url}"'
    what = "its token" if headers.get("X-Auth-Token") else "it has no token"
    assert answer.json["error"]["message"].startswith(f"The request you have made requires authentication: {what}")


def test_a_token_that_expires_is_401_although_it_was_seen(serve: Serve, keystone: Keystone) -> None:
    server = serve(keystone.url)
    for lifetime in (0.6, 3.0, 15.0, 60.0):  # the machine may take its time, too
        mia = as_(server, keystone.issue("mia", "demo", lifetime=lifetime))
        expires = time.monotonic() + lifetime
        if mia.call("GET", "/stacks").status_int == 200:
            break
    else:
        pytest.fail("no token is good")
    time.sleep(max(0.0, expires + 0.1 - time.monotonic()))
    mia.call("GET", "/stacks", code=401)
    as_(server, keystone.issue("mia", "demo", lifetime=-1)).call("GET", "/stacks", code=401)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("trouble", sampled(["error", "garbage", "text", "list", "hangs"], 4, pytest.mark.thorough))
def test_a_keystone_out_of_order_is_503_and_nothing_is_lost(
    serve: Serve, keystone: Keystone, trouble: str, known: bool
) -> None:
    timeout = {"http_connect_timeout": "1"} if trouble == "hangs" else {}
    server, token = serve(keystone.url, timeout), keystone.issue("mia", "demo")
    mia = as_(server, token)
    if known:  # to Keystone, that is: heatlite has a token of its own by then
        eventually(lambda: as_(server, "unknown").call("GET", "/stacks").status_int == 401, "Keystone answers")
    keystone.trouble = trouble
    kind, text = mia.fault("POST", "/stacks", {"stack_name": "s", "template": template(a=value())}, code=503)
    assert (kind, text) == (
        "Unavailable", "Keystone is not available now: it cannot check your token; try again later",
    )  # fmt: skip
    assert mia.app.get("/healthcheck").text == "OK"
    assert mia.app.get("/v1").json["versions"]
    keystone.trouble = None
    eventually(lambda: mia.call("GET", "/stacks").status_int == 200, "Keystone answers in time")
    mia.create(template(a=value()))


def test_the_event_loop_asks_keystone_nothing(serve: Serve, keystone: Keystone) -> None:
    server, token = serve(keystone.url), keystone.issue("mia", "demo")
    mia = as_(server, token)
    mia.get("/stacks")
    asked = keystone.asked.total()
    with waits(allowed=False):
        mia.get("/stacks")
        for other in ({"X-Auth-Token": "other"}, {"X-Service-Token": "other"}):
            with pytest.raises(MustWait):
                mia.call("GET", "/stacks", headers=other)
    assert keystone.asked.total() == asked


def test_a_token_from_the_cache_is_not_confirmed_anew(
    serve: Serve, keystone: Keystone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the event loop would trust a cache that is about to lose the token."""
    now = [1000.0]
    held = SimpleNamespace(monotonic=lambda: now[0], time=time.time)
    monkeypatch.setattr("heatlite.api.access.keystone.time", held)
    server, token = serve(keystone.url, {"token_cache_time": "100"}), keystone.issue("mia", "demo")
    mia = as_(server, token)
    mia.get("/stacks")
    for seconds, must_wait in ((89, False), (95, True), (150, True)):
        now[0] = 1000.0 + seconds
        with waits(allowed=False), pytest.raises(MustWait) if must_wait else nullcontext():
            mia.get("/stacks")
        if seconds < 100:
            mia.get("/stacks")


def test_a_keystone_that_hangs_leaves_threads_to_others(serve: Serve, keystone: Keystone) -> None:
    """To those with tokens that it was asked about before.

    The rest is told at once to come again.
    """
    server = serve(keystone.url)
    mia = as_(server, keystone.issue("mia", "demo"))
    mia.get("/stacks")
    keystone.trouble = "hangs"
    strangers = [as_(server, f"token-{number}") for number in range(16)]
    with ThreadPoolExecutor(len(strangers)) as pool:
        asked = [pool.submit(one.call, "GET", "/stacks", code=503) for one in strangers]
        try:
            first = next(as_completed(asked, START_SECONDS)).result()  # while the others wait
            for _ in range(5):
                mia.get("/stacks")
        finally:
            keystone.trouble = "error"
        refused = [one.result() for one in asked]
    told = "Keystone is not available now: too many requests wait for it; try again later"
    assert first.json["error"]["message"] == told
    assert all(int(answer.headers["Retry-After"]) > 0 for answer in refused)


def test_a_keystone_that_is_not_there_is_503(serve: Serve) -> None:
    server = serve("http://127.0.0.1:1/v3")
    assert as_(server, "t").fault("GET", "/stacks", code=503)[0] == "Unavailable"
    as_(server, None).call("GET", "/stacks", code=401)


def test_what_is_needed_later_is_kept_and_no_token(serve: Serve, keystone: Keystone) -> None:
    server, token = serve(keystone.url), keystone.issue("mia", "demo")
    slow = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"create": -1}}}
    mia = as_(server, token)
    mia.create(template(a=slow), wait=False)
    (shown,) = mia.get("/actions")["actions"]
    assert shown["context"].keys() == {"user", "project", "roles", "request_id"}
    action = server.store.actions.get(shown["id"])
    assert action is not None
    caller = restore_context(action)
    assert token not in repr(server.store.database.read("SELECT * FROM action"))
    assert (caller.user, caller.user_id, caller.project) == ("mia", "mia-id", "demo-id")
    assert (caller.user_domain_id, caller.project_domain_id) == ("default", "default")
    assert caller.roles == {"member", "reader"}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "auth_url"),
        ({"auth_url": "http://k", "user_nam": "heat"}, r"\[keystone\]: unknown key 'user_nam'"),
        ({"auth_url": "k:5000/v3"}, r"\[keystone\]: auth_url: it is no address"),
        ({"auth_url": "https://k", "cafile": "/none"}, r"\[keystone\]: cafile: there is no /none"),
        ({"auth_url": "http://k", "auth_type": "magic"}, r"\[keystone\]: .*magic"),
        ({"auth_url": "http://k", "token_cache_time": "soon"}, r"\[keystone\]: token_cache_time"),
    ],
)
def test_what_starts_no_server(tmp_path: Path, table: dict[str, str], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        preflight.check_servable(settings_of(tmp_path, table))


# -- policy.yaml -------------------------------------------------------------------------------------------


class TestPolicyFile:
    def test_it_overrides_the_table_and_counts_at_once(
        self, serve: Serve, keystone: Keystone, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        file = tmp_path / "policy.yaml"
        file.write_text('"stacks:create": "role:reader and project_id:%(project_id)s"\n"actions:check": "!"\n')
        server = serve(keystone.url, policy_file=str(file))
        reader = as_(server, keystone.issue("mia", "other"), "other-id")
        path = reader.create(template(a=value()))
        assert reader.fault("POST", f"{path}/actions", {"check": None}, code=403)[1] == (
            "You are not authorized to use actions:check."
        )
        reader.call("DELETE", path, code=403)  # by the table
        file.write_text('"project_reader": "role:reader"\n"stacks:delete": "rule:project_reader"\n')
        reader.call("POST", "/stacks", {"stack_name": "t", "template": template()}, code=403)
        reader.call("DELETE", path, code=204)
        for broken in ("a: [", "- a", "a: 1", '"stacks:index": "rule:nothing"', None):
            if broken is None:
                file.unlink()
            else:
                file.write_text(broken)
            assert "The policy" in reader.fault("GET", "/stacks", code=503)[1]
        file.write_text("{}")
        reader.get("/stacks")

    def test_who_is_an_administrator(self, serve: Serve, keystone: Keystone, tmp_path: Path) -> None:
        file = tmp_path / "policy.yaml"
        file.write_text('"context_is_admin": "user_id:max-id"\n"service:index": "rule:context_is_admin"\n')
        server = serve(keystone.url, policy_file=str(file))
        as_(server, keystone.issue("max", "other")).get("/stacks")
        as_(server, keystone.issue("ada", "admin")).call("GET", "/stacks", code=403)
        as_(server, keystone.issue("ada", "admin"), "admin-id").get("/stacks")
        as_(server, keystone.issue("ada", "admin"), "admin-id").call("GET", "/services", code=403)

    def test_the_table_is_the_same_in_its_language(self, serve: Serve, keystone: Keystone, tmp_path: Path) -> None:
        from heatlite.api.access.policy import TABLE, Table
        from heatlite.api.access.policy_file import PolicyFile
        from heatlite.core.context import Context

        (tmp_path / "empty.yaml").write_text("")
        theirs = PolicyFile(tmp_path / "empty.yaml", {})
        for roles in ((), ("reader",), ("member",), ("admin",), ("heat_stack_user",), ("reader", "heat_stack_user")):
            caller = Context("demo", roles=frozenset(roles))
            for rule in TABLE:
                assert theirs.allows(rule, caller) is Table({}).allows(rule, caller), (rule, roles)
            assert theirs.is_admin(caller) is caller.is_admin

    @pytest.mark.parametrize("broken", ["a: [", "- a", "a: 1", '"stacks:index": "rule:nothing"', None])
    def test_what_starts_no_server(self, tmp_path: Path, broken: str | None) -> None:
        file = tmp_path / "policy.yaml"
        if broken is not None:
            file.write_text(broken)
        settings = Settings(database=f"sqlite:///{tmp_path / 'heat.db'}", port=0, policy_file=str(file))
        with pytest.raises(BadSetting, match=r"policy\.yaml"):
            preflight.check_servable(settings)


# -- the real client ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_openstack_with_a_password(
    keystone: Keystone, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    need("openstackclient", "python-openstackclient")
    need("heatclient", "python-heatclient")
    table = {f"HEATLITE_KEYSTONE_{name.upper()}": text for name, text in {"auth_url": keystone.url, **ACCOUNT}.items()}
    server = Server(tmp_path, HEATLITE_AUTH="keystone", **table)
    keystone.orchestration = f"{server.url}/v1/{{project}}"
    variables = {
        "OS_AUTH_URL": keystone.url, "OS_USERNAME": "mia", "OS_PASSWORD": "of-mia", "OS_PROJECT_NAME": "demo",
        "OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default", "OS_IDENTITY_API_VERSION": "3",
    }  # fmt: skip
    openstack = OpenStack(tmp_path_factory.mktemp("openstack"), variables)
    try:
        hello = str(TEMPLATES / "hello.yaml")
        openstack.ok("stack", "create", "-t", hello, "--wait", "--poll", "0", "mine")
        assert openstack.ok("stack", "show", "mine", "-f", "json").data["stack_owner"] == "mia"  # type: ignore[index]
        refused = openstack("stack", "list", "--all-projects")
        assert refused.code != 0
        assert "stacks:global_index" in refused.err
        openstack.ok("stack", "delete", "--yes", "--wait", "mine")
        assert "of-heat" not in server.log.read_text() and "of-mia" not in server.log.read_text()
    finally:
        openstack.close()
        server.stop()
    assert server.complaints() == ""
