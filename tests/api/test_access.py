"""Authentication and authorization: passwords, tokens, roles, projects."""

import json
import re
import threading
import time
import tracemalloc
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from falcon.testing import create_environ

from heatlite import wiring
from heatlite.api.access import factory as modes
from heatlite.api.access import login_throttle as brake_module
from heatlite.api.access import passwords
from heatlite.api.access.account_files import add_token, digest
from heatlite.api.access.authentication import AccessControl, Identity
from heatlite.api.access.login_throttle import (
    AT_ONCE,
    FREE_FROM_ADDRESS,
    IN_LINE,
    MAX_FAILURES,
    LoginThrottle,
    TooManyLogins,
    address_of,
    proxies,
)
from heatlite.api.access.policy import TABLE, Table
from heatlite.api.handlers.stack_actions import ACTIONS
from heatlite.api.request import Request
from heatlite.clients.trusts import Trusts
from heatlite.core.clock import Clock
from heatlite.core.config import Auth, BadSetting, Settings
from heatlite.core.context import Context
from heatlite.core.errors import TooManyFailures
from heatlite.core.ids import new_id
from heatlite.engine.outbound.self_auth import SelfAuth
from heatlite.features.approvals.store.records import ApprovalRecord, ApprovalState, Subject
from heatlite.features.approvals.store.store import ApprovalStore
from heatlite.features.healing.store.records import HealthTokenRecord, IncidentRecord
from heatlite.features.healing.store.sources import PREFIX, token_digest
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import IncidentState
from heatlite.features.simulator.feature import SimulatorSettings
from heatlite.plugin.installation import BadEnvironmentFile
from heatlite.plugin.signing import NATIVE, Signalled
from heatlite.serving import preflight
from heatlite.store.records import StackRecord
from heatlite.store.secrets.cipher import Cipher, new_key
from heatlite.store.store import Store
from tests.databases import sqlite
from tests.features.nodes.registered_nodes import registered
from tests.tables import few, sampled

from .conftest import NOW, RULES, Heat, Town, served_routes, template, value

P = "/v1/{project}"
S = P + "/stacks/{stack_name}/{stack_id}"
R = S + "/resources/{resource_name}"

OPEN = {
    "GET /", "GET /versions", "GET /v1", "POST /v1", "GET /healthcheck", "GET /metrics", "GET /docs",
    "GET /openapi.json",
}  # fmt: skip


class SlowClock(Clock):
    """The machine's clock, set to another time."""

    def __init__(self) -> None:
        self.ahead = NOW - time.time()

    def now(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def clock() -> SlowClock:
    return SlowClock()


Serve = Callable[..., wiring.Embedded]


def chosen(folder: Path, **settings: Any) -> Settings:
    """Settings with all files in a folder."""
    return Settings(
        database=sqlite(folder),
        users_file=str(folder / "users"),
        tokens_file=str(folder / "tokens.toml"),
        port=0,
        **settings,
    )


@pytest.fixture
def serve(tmp_path: Path, clock: SlowClock) -> Iterator[Serve]:
    """Starts a server with these settings."""
    started = []

    def start(**settings: Any) -> wiring.Embedded:
        started.append(wiring.embedded(chosen(tmp_path, **settings), clock=clock))
        return started[-1]

    yield start
    for one in started:
        one.close()


def routes(app: Any) -> list[str]:
    """Routes of the application with their methods: ``GET /v1/{project}/stacks``."""
    return [f"{method} {path}" for method, path in served_routes(app)]


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"}


# -- names and passwords ---------------------------------------------------------------------------------


def write_users(folder: Path, **hashes: str) -> None:
    (folder / "users").write_text("# people\n\n" + "".join(f"{name}:{one}\n" for name, one in hashes.items()))
    roles = "".join(f'[{name}]\ndemo = ["member"]\n"an other" = ["reader"]\n' for name in hashes)
    (folder / "users.toml").write_text(roles)


def hashed(password: str, prefix: str = "2b") -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode().replace("$2b$", f"${prefix}$", 1)


class TestBasic:
    @pytest.mark.slow
    @pytest.mark.parametrize("prefix", few(["2a", "2b", "2y"]))
    def test_a_password_opens_the_users_projects(self, serve: Serve, tmp_path: Path, prefix: str) -> None:
        write_users(tmp_path, mia=hashed("söme:pass", prefix))
        app = serve(auth=Auth.BASIC).app
        mia = Heat(app, proof=basic("mia", "söme:pass"))
        path = mia.create(template(a=value()))
        assert mia.get(path)["stack"]["stack_owner"] == "mia"
        assert mia.of("an%20other").get("/stacks") == {"stacks": []}
        kind, text = mia.of("third").fault("GET", "/stacks", code=403)
        assert (kind, text) == ("HTTPForbidden", "You are not authorized to use the project third.")

    @pytest.mark.parametrize(
        "headers",
        sampled(
            [
                {},
                basic("mia", "wrong"),
                basic("mia", ""),
                basic("mia", "right\0"),
                basic("mia", "r" * 100),
                basic("max", "right"),
                basic("", "right"),
                {"Authorization": "Basic"},
                {"Authorization": "Basic %%%"},
                {"Authorization": "Basic /////w=="},
                {"Authorization": "Basic " + b64encode(b"mia").decode()},
                {"Authorization": basic("mia", "right")["Authorization"].replace("Basic", "Bearer")},
                {"Authorization": "\xe4"},
                {"X-Auth-Token": "right"},
                {"X-Auth-User": "mia", "X-Auth-Key": "right"},
            ],
            4,
            pytest.mark.thorough,
        ),
    )
    def test_anything_else_is_401(self, serve: Serve, tmp_path: Path, headers: dict[str, str]) -> None:
        write_users(tmp_path, mia=hashed("right"))
        answer = Heat(serve(auth=Auth.BASIC).app).call("GET", "/stacks", headers=headers, code=401)
        assert answer.headers["WWW-Authenticate"] == 'Basic realm="heatlite", charset="UTF-8"'
        what = "are wrong or have expired" if headers else "it has no token and no password"
        message = answer.json["error"]["message"]
        assert message.startswith("The request you have made requires authentication: ") and what in message
        assert answer.json["title"] == "Unauthorized"
        assert answer.headers["X-Openstack-Request-Id"].startswith("req-")

    def test_a_long_password_counts_as_far_as_bcrypt_looks(self, serve: Serve, tmp_path: Path) -> None:
        """As with every other program that reads such a file."""
        write_users(tmp_path, mia=hashed("p" * 72))
        app = serve(auth=Auth.BASIC).app
        Heat(app, proof=basic("mia", "p" * 80)).get("/stacks")
        Heat(app, proof=basic("mia", "p" * 71)).call("GET", "/stacks", code=401)

    def test_a_change_of_the_files_counts_at_once(self, serve: Serve, tmp_path: Path) -> None:
        write_users(tmp_path, mia=hashed("old"))
        mia = Heat(serve(auth=Auth.BASIC).app, proof=basic("mia", "old"))
        mia.get("/stacks")
        write_users(tmp_path, mia=hashed("new"), max=hashed("his"))
        mia.call("GET", "/stacks", code=401)
        Heat(mia.wsgi, proof=basic("mia", "new")).get("/stacks")
        Heat(mia.wsgi, proof=basic("max", "his")).get("/stacks")
        (tmp_path / "users.toml").write_text("[mia]\nnew = ['member']\n")
        Heat(mia.wsgi, proof=basic("mia", "new")).call("GET", "/stacks", code=403)
        Heat(mia.wsgi, proof=basic("max", "his")).call("GET", "/stacks", code=403)
        Heat(mia.wsgi, "new", basic("mia", "new")).get("/stacks")

    @pytest.mark.parametrize("broken", few(["mia", "mia:plain", "mia:$apr1$x$y", ":x", None]))
    def test_files_that_are_wrong_meanwhile_let_nobody_in(
        self, serve: Serve, tmp_path: Path, broken: str | None, caplog: pytest.LogCaptureFixture
    ) -> None:
        write_users(tmp_path, mia=hashed("right"))
        mia = Heat(serve(auth=Auth.BASIC).app, proof=basic("mia", "right"))
        mia.get("/stacks")
        if broken is None:
            (tmp_path / "users").unlink()
        else:
            (tmp_path / "users").write_text(broken)
        _, text = mia.fault("GET", "/stacks", code=503)
        assert "list of users" in text
        assert str(tmp_path) not in text
        assert str(tmp_path) in caplog.text
        assert mia.app.get("/healthcheck").text == "OK"
        write_users(tmp_path, mia=hashed("right"))
        mia.get("/stacks")

    def test_a_password_that_was_right_is_remembered_for_a_minute(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_users(tmp_path, mia=hashed("right"))
        moment, looks = [0.0], []
        check = bcrypt.checkpw
        monkeypatch.setattr(bcrypt, "checkpw", lambda *given: looks.append(given) or check(*given))
        known = passwords.Basic(tmp_path / "users", now=lambda: moment[0])

        class Asked:
            def __init__(self, password: str) -> None:
                self.env = {"HTTP_AUTHORIZATION": basic("mia", password)["Authorization"]}

        def asks(password: str) -> bool:
            return known.identify(Asked(password)) is not None  # type: ignore[arg-type]

        assert [asks("right"), asks("right"), asks("wrong"), asks("wrong")] == [True, True, False, False]
        assert len(looks) == 3
        moment[0] = 50.0
        assert asks("right")
        moment[0] = 100.0  # a minute after the last use, not the first
        assert asks("right")
        assert len(looks) == 3
        moment[0] = 161.0
        assert asks("right")
        assert len(looks) == 4
        assert b64encode(b"mia:right").decode() not in repr(vars(known))
        assert "'right'" not in repr(vars(known))

    def test_whoever_is_not_known_takes_as_long(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_users(tmp_path, mia=hashed("right"))
        known, looks = passwords.Basic(tmp_path / "users", time.time), []
        monkeypatch.setattr(bcrypt, "checkpw", lambda *given: looks.append(given))

        class Asked:
            env = {"HTTP_AUTHORIZATION": basic("max", "right")["Authorization"]}

        assert known.identify(Asked()) is None  # type: ignore[arg-type]
        assert len(looks) == 1

    @pytest.mark.slow
    def test_whoever_guesses_has_to_wait(self, serve: Serve, tmp_path: Path, clock: SlowClock) -> None:
        write_users(tmp_path, mia=hashed("right"), max=hashed("his"))
        app = serve(auth=Auth.BASIC, trusted_proxies=("127.0.0.0/8",)).app

        def asks(name: str, password: str, code: int, address: str = "192.0.2.1") -> Any:
            proof = {**basic(name, password), "X-Forwarded-For": f"198.51.100.7, {address}"}
            heat = Heat(app, proof=proof)
            heat.app.extra_environ["REMOTE_ADDR"] = "127.0.0.1"
            return heat.call("GET", "/stacks", code=code)

        for name in ("mia", "nobody"):  # that a name is not known does not show
            for _ in range(6):
                asks(name, "wrong", 401)
            answer = asks(name, "wrong", 429)
            assert answer.headers["Retry-After"] == "1"
            kind, text = answer.json["error"]["type"], answer.json["error"]["message"]
            assert (kind, "Try again in 1 s." in text) == ("TooManyFailures", True)
        asks("mia", "right", 429)
        asks("max", "his", 200)
        asks("mia", "right", 200, "192.0.2.2")  # nobody keeps her out from elsewhere
        asks("mia", "right", 200)  # nor from here, now that she is known
        waits = []
        for _ in range(10):
            clock.ahead += waits[-1] if waits else 1
            asks("nobody", "wrong", 401)
            waits.append(int(asks("nobody", "wrong", 429).headers["Retry-After"]))
        assert waits == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
        clock.ahead += 300
        asks("max", "wrong", 401)
        asks("max", "his", 200)
        clock.ahead += 3600
        for _ in range(6):
            asks("nobody", "wrong", 401)

    def test_whoever_tries_one_password_with_many_names_has_to_wait(self) -> None:
        moment = [0.0]
        throttle = LoginThrottle(lambda: moment[0])
        for number in range(FREE_FROM_ADDRESS):
            throttle.ask(f"n{number}", "a")
            throttle.failed(f"n{number}", "a")
            throttle.passed("own", "a")  # an account of the attacker's own does not help
        waits = []
        for number in range(8):
            throttle.ask(f"m{number}", "a")
            throttle.failed(f"m{number}", "a")
            with pytest.raises(TooManyFailures) as refused:
                throttle.ask("another", "a")
            waits.append(refused.value.retry_after)
            moment[0] += waits[-1]
        assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
        throttle.ask("another", "b")

    @pytest.mark.parametrize(
        ("peer", "forwarded", "trusted", "address"),
        [
            ("127.0.0.1", "9.9.9.9", (), "127.0.0.1"),
            ("127.0.0.1", "9.9.9.9", ("127.0.0.1",), "9.9.9.9"),
            ("127.0.0.1", "1.1.1.1, 9.9.9.9", ("127.0.0.1",), "9.9.9.9"),
            ("127.0.0.1", "1.1.1.1, 9.9.9.9,10.0.0.7", ("127.0.0.1", "10.0.0.0/8"), "9.9.9.9"),
            ("127.0.0.1", "10.0.0.7", ("127.0.0.1", "10.0.0.0/8"), "10.0.0.7"),
            ("127.0.0.1", None, ("127.0.0.1",), "127.0.0.1"),
            ("127.0.0.1", "9.9.9.9,", ("127.0.0.1",), "127.0.0.1"),
            ("127.0.0.1", "unknown", ("127.0.0.1",), "unknown"),
            ("10.0.0.7", "9.9.9.9", ("127.0.0.1",), "10.0.0.7"),
            ("::1", "9.9.9.9", ("::1",), "9.9.9.9"),
            ("2001:db8:1:2:3::4", None, (), "2001:db8:1:2::/64"),
            # A socket of IPv6 shows the clients of IPv4 like this.
            ("::ffff:10.0.0.7", None, (), "10.0.0.7"),
            ("::ffff:127.0.0.1", "9.9.9.9", ("127.0.0.1",), "9.9.9.9"),
            ("::ffff:127.0.0.1", "::ffff:9.9.9.9", ("::ffff:127.0.0.1",), "9.9.9.9"),
            # Some proxies add the port, which is another one for each connection.
            ("127.0.0.1", "9.9.9.9:4711", ("127.0.0.1",), "9.9.9.9"),
            ("127.0.0.1", "9.9.9.9:4711, 10.0.0.7:80", ("127.0.0.1", "10.0.0.0/8"), "9.9.9.9"),
            ("127.0.0.1", "[2001:db8:1:2:3::4]:4711", ("127.0.0.1",), "2001:db8:1:2::/64"),
            ("127.0.0.1", "[2001:db8:1:2:3::4]", ("127.0.0.1",), "2001:db8:1:2::/64"),
            ("", None, (), ""),
        ],
    )
    def test_only_a_trusted_proxy_says_where_a_request_comes_from(
        self, peer: str, forwarded: str | None, trusted: tuple[str, ...], address: str
    ) -> None:
        class Asked:
            env = {"REMOTE_ADDR": peer} | ({} if forwarded is None else {"HTTP_X_FORWARDED_FOR": forwarded})

        assert address_of(Asked(), proxies(trusted)) == address  # type: ignore[arg-type]

    def test_what_is_no_proxy_starts_no_server(self, tmp_path: Path) -> None:
        write_users(tmp_path, mia=hashed("x"))
        with pytest.raises(BadSetting, match="trusted_proxies: 'proxy' does not appear to be"):
            preflight.check_servable(chosen(tmp_path, auth=Auth.BASIC, trusted_proxies=("proxy",)))

    def test_a_faulty_environment_file_starts_no_server(self, tmp_path: Path) -> None:
        (tmp_path / "environment.d").mkdir()
        (tmp_path / "environment.d" / "a.yaml").write_text("resource_registry: [")
        with pytest.raises(BadEnvironmentFile, match=r"a\.yaml: Environment not in valid format"):
            preflight.check_servable(chosen(tmp_path, environment_dir=str(tmp_path / "environment.d")))

    def test_half_a_stack_domain_starts_no_server(self, tmp_path: Path) -> None:
        with pytest.raises(BadSetting, match="A stack domain needs stack_user_domain_name"):
            preflight.check_servable(chosen(tmp_path, stack_domain_admin="heat"))

    def test_a_faulty_simulated_cloud_starts_no_server(self, tmp_path: Path) -> None:
        (tmp_path / "cloud.yaml").write_text("- x")
        with pytest.raises(BadSetting, match=r"cloud\.yaml: \$: \['x'\] is not of type 'object'"):
            scripted = (SimulatorSettings(simulation=str(tmp_path / "cloud.yaml")),)
            preflight.check_servable(chosen(tmp_path, cloud="simulated", of_features=scripted))
        with pytest.raises(BadSetting, match="the simulated cloud needs a SQLite database"):
            wiring.cloud_provider(chosen(tmp_path, cloud="simulated"), None)

    def test_few_passwords_are_checked_at_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The others wait a moment or get a 503; none counts as a wrong password."""
        write_users(tmp_path, mia=hashed("right"))
        goes_on, most, now = threading.Event(), [0], [0]
        lock = threading.Lock()

        def check(password: bytes, _: bytes) -> bool:
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
            goes_on.wait(240)
            with lock:
                now[0] -= 1
            return password == b"right"

        monkeypatch.setattr(bcrypt, "checkpw", check)
        monkeypatch.setattr(brake_module, "IN_LINE_SECONDS", 240.0)
        known = passwords.Basic(tmp_path / "users", time.time)

        class Asked:
            env = {"HTTP_AUTHORIZATION": basic("mia", "right")["Authorization"]}

        def ask() -> bool:
            return known.identify(Asked()) is not None  # type: ignore[arg-type]

        with ThreadPoolExecutor(AT_ONCE + IN_LINE) as pool:
            asked = [pool.submit(ask) for _ in range(AT_ONCE + IN_LINE)]
            while (known._throttle.checks.busy, known._throttle.checks.waiting) != (AT_ONCE, IN_LINE):
                time.sleep(0.01)
            with pytest.raises(TooManyLogins) as refused:
                ask()
            assert refused.value.retry_after == 1
            goes_on.set()
            assert all(one.result() for one in asked)
        assert most[0] == AT_ONCE

    def test_a_right_password_clears_the_wrong_ones(self, tmp_path: Path) -> None:
        throttle = LoginThrottle(lambda: 0.0)
        for _ in range(3):
            for _ in range(5):
                throttle.failed("mia", "a")
            throttle.ask("mia", "a")
            throttle.passed("mia", "a")

    def test_who_guesses_is_kept_in_mind_within_bounds(self) -> None:
        throttle = LoginThrottle(lambda: 0.0)
        for _ in range(6):
            throttle.failed("last", "a")
        for number in range(MAX_FAILURES + 10):
            throttle.failed(f"n{number}", f"a{number}")
            if number % 1000 == 0:
                throttle.failed("last", "a")
        assert len(throttle.by_name) == MAX_FAILURES
        with pytest.raises(TooManyFailures):
            throttle.ask("last", "a")

    def test_long_names_take_no_more_memory_than_short_ones(self) -> None:
        throttle = LoginThrottle(lambda: 0.0)
        tracemalloc.start()
        for number in range(50):
            throttle.failed(f"{number:0100000}", "a")
        here = [tracemalloc.Filter(True, file) for file in (__file__, brake_module.__file__)]  # not of other threads
        kept = tracemalloc.take_snapshot().filter_traces(here).statistics("filename")
        tracemalloc.stop()
        assert sum(one.size for one in kept) < 100_000

    def test_what_starts_no_server(self, tmp_path: Path) -> None:
        with pytest.raises(BadSetting, match=r"The list of users \(.*users\) cannot be read: No such file"):
            preflight.check_servable(chosen(tmp_path, auth=Auth.BASIC))
        write_users(tmp_path, mia="$apr1$x$y")
        with pytest.raises(BadSetting, match=r"line 3 is not USER:HASH with a bcrypt hash"):
            preflight.check_servable(chosen(tmp_path, auth=Auth.BASIC))
        write_users(tmp_path, mia=hashed("x"))
        (tmp_path / "users.toml").write_text("[mia]\ndemo = 'member'\n")
        with pytest.raises(BadSetting, match=r"users\.toml: \[mia\]: projects are given as"):
            preflight.check_servable(chosen(tmp_path, auth=Auth.BASIC))


# -- tokens ------------------------------------------------------------------------------------------------


class TestTokens:
    def test_a_token_opens_its_projects_until_it_expires(self, serve: Serve, tmp_path: Path, clock: SlowClock) -> None:
        token = add_token(tmp_path / "tokens.toml", "ci", {"demo": frozenset({"member"})}, NOW + 3600)
        app = serve(auth=Auth.TOKENS).app
        ci = Heat(app, proof={"X-Auth-Token": token})
        assert ci.get(ci.create(template(a=value())))["stack"]["stack_owner"] == "ci"
        ci.of("other").call("GET", "/stacks", code=403)
        clock.ahead += 3601
        answer = ci.call("GET", "/stacks", code=401)
        assert answer.headers["WWW-Authenticate"] == 'X-Auth-Token realm="heatlite"'

    @pytest.mark.parametrize("token", sampled(["", "x", "\xe4", "a" * 64, None], 5, pytest.mark.thorough))
    def test_anything_else_is_401(self, serve: Serve, tmp_path: Path, token: str | None) -> None:
        given = add_token(tmp_path / "tokens.toml", "ci", {"demo": frozenset({"member"})}, None)
        app = serve(auth=Auth.TOKENS).app
        for one in (token, digest(given), given + " ", given[:-1], given.swapcase()):
            headers = {} if one is None else {"X-Auth-Token": one}
            Heat(app).call("GET", "/stacks", headers=headers, code=401)

    def test_the_file_holds_no_token_and_counts_at_once(self, serve: Serve, tmp_path: Path) -> None:
        file, roles = tmp_path / "tokens.toml", {'de"mo': frozenset({"member"})}
        first = add_token(file, "ci", roles, None)
        heat = Heat(serve(auth=Auth.TOKENS).app, "de%22mo")
        second = add_token(file, "o'ci", roles, NOW + 60)
        assert first not in file.read_text()
        assert file.stat().st_mode & 0o777 == 0o600
        for token in (first, second):
            heat.call("GET", "/stacks", headers={"X-Auth-Token": token}, code=200)
        file.write_text("")
        heat.call("GET", "/stacks", headers={"X-Auth-Token": first}, code=401)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[[tokens]]\nuser = 'a'\n", "token 1 needs `sha256`"),
            ("[tokens]\nuser = 'a'\n", "two pairs of brackets"),
            ("tokens = ", "not valid TOML"),
            ("[[tokens]]\nsha256='%s'\nuser='a'\nprojects={a='b'}\n", "projects are given as"),
            ("[[tokens]]\nsha256='%s'\nuser='a'\nprojects={}\nexpires='x'\n", "a time with a zone"),
            ("[[tokens]]\nsha256='%s'\nuser='a'\nprojects={}\nexpires=2027-01-01T00:00:00\n", "a time with a zone"),
            ("[[tokens]]\nsha256='%s'\nuser='a'\nprojects={}\nexpire=2027-01-01T00:00:00Z\n", "unknown key expire"),
        ],
    )
    def test_what_starts_no_server(self, tmp_path: Path, text: str, message: str) -> None:
        (tmp_path / "tokens.toml").write_text(text.replace("%s", "0" * 64))
        with pytest.raises(BadSetting, match=message):
            preflight.check_servable(chosen(tmp_path, auth=Auth.TOKENS))


def test_a_server_that_asks_may_listen_anywhere(tmp_path: Path) -> None:
    add_token(tmp_path / "tokens.toml", "ci", {}, None)
    preflight.check_servable(chosen(tmp_path, auth=Auth.TOKENS, host="0.0.0.0"))
    with pytest.raises(preflight.NotLoopback, match="set `auth`"):
        preflight.check_servable(chosen(tmp_path, host="0.0.0.0"))


# -- roles -------------------------------------------------------------------------------------------------


@pytest.fixture
def own_town(serve: Serve, tmp_path: Path) -> Town:
    """The project `demo` of a server that the test has alone."""
    (tmp_path / "tokens.toml").touch()
    return Town(serve(auth=Auth.TOKENS))


OPEN |= {f"PUT {R}/node", f"POST {R}/node"}
"""Authenticated by a signature: tests/features/nodes/test_registration.py."""
MEMBERS_READS = {
    "GET " + S + "/export", "GET " + P + "/resource_types/{type_name}/template", "GET " + P + "/health_tokens",
}  # fmt: skip
LOOKS = {
    "POST " + P + "/stacks/preview", "POST " + S + "/actions", "POST " + R + "/actions",
    "POST " + P + "/access_keys", "DELETE " + P + "/access_keys/{key_id}",
    "POST " + P + "/approvals/{approval_id}/approve", "POST " + P + "/approvals/{approval_id}/reject",
}  # fmt: skip
"""For readers; which action is another question."""
ADMINS = {"GET " + P + "/services", "PUT " + P + "/change_policy", "DELETE " + P + "/change_policy"}
MACHINES = {
    "GET " + R + "/metadata",
    "POST " + R + "/signal",
    "GET " + P + "/software_deployments/metadata/{server_id}",
}


def may(role: str, route: str) -> bool:
    """The policy of the specification."""
    lookup = re.fullmatch(re.escape(P) + r"/stacks/\{stack_name\}(/\w+)?", route.partition(" ")[2]) is not None
    if role == "heat_stack_user":
        return lookup or route in MACHINES
    if role == "reader":
        reads = route.startswith("GET ") and route not in MEMBERS_READS | ADMINS
        return reads or lookup or route in LOOKS
    return role == "admin" or role == "member" and route not in ADMINS


@pytest.mark.slow
@pytest.mark.parametrize("role", ["reader", "member", "admin", "heat_stack_user", "nothing", "odd"])
def test_what_a_role_may_do(town: Town, role: str) -> None:
    who = town[role]
    for route in routes(town.server.app):
        method, path = route.split()
        if route in OPEN:
            continue
        answer = who.call(method, re.sub(r"\{(?!project)\w+\}", "x", path).replace("{project}", town.project))
        refused = answer.status_int == 403
        assert refused is not may(role, route), f"{route}: {answer.text}"
        if refused:
            rule = re.fullmatch(r"You are not authorized to use (\S+)\.", answer.json["error"]["message"])
            assert rule is not None and rule[1] in RULES
            assert answer.json["error"]["type"] == "Forbidden"
            assert answer.json["explanation"] == "Access was denied to this resource."


@pytest.mark.slow
@pytest.mark.parametrize("auth", [Auth.BASIC, Auth.TOKENS, Auth.KEYSTONE])
def test_an_intake_token_reports_and_opens_nothing_else(
    serve: Serve, tmp_path: Path, clock: SlowClock, auth: Auth
) -> None:
    """Keystone is away: reports do not need it."""
    if auth is Auth.KEYSTONE:
        pytest.importorskip("keystonemiddleware", reason="keystonemiddleware is not installed (extra `keystone`)")
    write_users(tmp_path, mia=hashed("right"))
    add_token(tmp_path / "tokens.toml", "mia", {"demo": frozenset({"member"})}, None)
    table = {"auth_url": "http://127.0.0.1:9/v3", "username": "h", "password": "p", "project_name": "service"}
    server = serve(auth=auth, **({"keystone": table} if auth is Auth.KEYSTONE else {}))
    token = f"{PREFIX}{'0' * 40}"
    record = HealthTokenRecord(new_id(), "demo", "x", token_digest(token), "alertmanager", "mia", NOW, NOW + 500)
    with server.store.transaction():
        server.store.of(HealingStore).tokens.insert(record)
    report = {"version": "4", "alerts": []}
    its_own = {f"POST {P}/health/{{source}}", f"PUT {P}/health/{{source}}"}
    for proof in ({"Authorization": f"Bearer {token}"}, basic("anybody", token)):
        reporter = Heat(server.app, proof=proof)
        reporter.call("POST", "/health/alertmanager", report, 200)
        reporter.call("POST", "/health/grafana", report, 403)
        reporter.of("other").call("POST", "/health/alertmanager", report, 403)
        for route in {*routes(server.app)} - OPEN - its_own:
            method, path = route.split()
            answer = reporter.call(method, re.sub(r"\{(?!project)\w+\}", "x", path).replace("{project}", "demo"))
            assert answer.status_int == 403, f"{route}: {answer.text}"
    clock.ahead += 1000
    reporter.call("POST", "/health/alertmanager", report, 401)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "allowed"),
    few([("reader", {"check"}), ("member", {*ACTIONS}), ("admin", {*ACTIONS}), ("heat_stack_user", set())]),
)
def test_which_actions_a_role_may_start(town: Town, role: str, allowed: set[str]) -> None:
    path = town["member"].create(template(a=value()))
    for action in ACTIONS:
        answer = town[role].call("POST", f"{path}/actions", {action: None})
        assert (answer.status_int != 403) is (action in allowed), f"{action}: {answer.text}"
        town["member"].settle(path)


def test_only_an_administrator_ends_an_action_by_force(town: Town) -> None:
    slow = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"create": 600}}}
    path = town["member"].create(template(a=slow), wait=False)
    (action,) = town["reader"].get("/actions")["actions"]
    force = {"signal": "CANCEL", "force": True}
    for name, code in (("reader", 403), ("member", 403), ("admin", 202)):
        town[name].call("POST", f"/actions/{action['id']}", force, code=code)
    town["member"].settle(path, "CREATE_FAILED")


def test_an_administrator_enters_every_project(own_town: Town) -> None:
    there = own_town["stranger"].of("other")
    path = there.create(template(a=value()))
    assert own_town["admin"].of("other").get(path)["stack"]["stack_owner"] == "stranger"
    listed = own_town["admin"].get("/stacks?global_tenant=True")["stacks"]
    assert [stack["project"] for stack in listed] == ["other"]
    for name in ("member", "reader", "heat_stack_user"):
        own_town[name].call("GET", "/stacks?global_tenant=True", code=403)
        own_town[name].call("GET", "/software_configs?global_tenant=True", code=403)
    own_town["nowhere"].call("GET", "/stacks", code=403)


def test_an_administrator_is_one_where_he_has_another_role(serve: Serve, tmp_path: Path) -> None:
    roles = {"demo": frozenset({"reader"}), "admin": frozenset({"admin"})}
    token = add_token(tmp_path / "tokens.toml", "ada", roles, None)
    Heat(serve(auth=Auth.TOKENS).app, "demo", {"X-Auth-Token": token}).create(template(a=value()))


@pytest.mark.slow
def test_who_approves_work_on_machines_is_for_the_policy_to_say(serve: Serve, tmp_path: Path) -> None:
    """And who may only read does not get to know how to be a machine's agent."""
    pytest.importorskip("oslo_policy", reason="oslo.policy is not installed (extra `keystone`)")
    file = tmp_path / "policy.yaml"
    file.write_text('"node_actions:approve": "role:approver"\n"node_playbooks:approve": "role:approver"\n')
    token = add_token(tmp_path / "tokens.toml", "ada", {"demo": frozenset({"approver"})}, None)
    town = Town(serve(auth=Auth.TOKENS, policy_file=str(file)))
    member, approver = town["member"], Heat(town.server.app, proof={"X-Auth-Token": token})
    path = member.create(template(a={"type": "OS::Heat::DeployedServer"}))
    metadata = f"{path}/resources/a/metadata"
    assert "/resources/a/node?" in member.get(metadata)["metadata"]["heatlite_agent"]["register"]
    for looks in (metadata, f"{path}/resources/a", f"{path}/nodes", f"{path}/events"):
        assert "/node?" not in town["reader"].call("GET", looks, code=200).text
    stack = town.server.store.stacks.get(path.rpartition("/")[2])
    assert stack is not None
    registered(town.server.store, stack, "a")
    work = {"node": "a", "kind": "script", "args": {"config": "true"}}
    runs = {"document": playbook("true")["document"]}
    for asked, body in ((f"{path}/node_actions", work), (f"{path}/node_playbook_runs", runs)):
        assert member.fault("POST", asked, {**body, "approval": "granted"}, code=403)[0] == "Forbidden"
        approver.call("POST", asked, body, code=403)
        town["heat_stack_user"].call("POST", asked, body, code=403)
    action = member.call("POST", f"{path}/node_actions", work, code=201).json["node_action"]
    run = member.call("POST", f"{path}/node_playbook_runs", runs, code=202).json["action"]
    for one in (f"/node_actions/{action['id']}", f"/node_playbook_runs/{run['id']}"):
        for name in ("member", "admin", "heat_stack_user"):
            town[name].call("POST", f"{one}/approve", code=403)
        approver.call("POST", f"{one}/approve", code=200)
    shown = member.get("/node_actions")["node_actions"]
    assert {(one["requested_by"], one["approved_by"], one["state"]) for one in shown} == {
        ("member", "ada", "PENDING_SCHEDULE")
    }


class Issued:
    """Accounts of Keystone without the role admin."""

    challenge = ""

    def identify(self, _req: Request) -> Identity:
        roles = frozenset({"member", "operator"})
        return Identity("mia", {"demo": roles}, user_id="mia-id", token="t")

    def roles(self, _user: str, _project: str) -> frozenset[str]:
        return frozenset()


class Notary:
    """A Keystone that records the roles of trusts."""

    user_id = "heat-id"

    def __init__(self) -> None:
        self.roles: list[str] = []

    def open(self) -> "Notary":
        return self

    def by(self, _prove: object, _project_id: str | None = None) -> "Notary":
        return self

    def call(self, verb: str, **given: Any) -> Any:
        assert verb == "identity.create_trust"
        self.roles += [one["name"] for one in given["roles"]]
        return {"id": "trust"}


@pytest.mark.slow
def test_a_role_that_only_the_policy_gives_is_not_delegated(tmp_path: Path) -> None:
    """Keystone creates no trust with a role that its user does not have."""
    oslo = pytest.importorskip("heatlite.api.access.policy_file", reason="oslo.policy is not installed")
    file = tmp_path / "policy.yaml"
    file.write_text('"context_is_admin": "role:operator"\n')
    req, notary = Request(create_environ()), Notary()
    AccessControl(Issued(), oslo.PolicyFile(file, {}), None, None).admit(req, "demo", None, {})
    assert req.caller.is_admin
    assert Trusts(notary).delegate(req.caller) == {"trust_id": "trust"}  # type: ignore[arg-type]
    assert notary.roles == ["member", "operator"]


def test_who_asked_is_kept(town: Town) -> None:
    path = town["member"].create(template(a=value()))
    (action,) = town["member"].get("/actions")["actions"]
    assert action["context"].pop("request_id").startswith("req-")
    assert action["context"] == {"user": "member", "project": town.project, "roles": ["member"]}
    town["member"].call("POST", f"{path}/actions", {"lock": {"reason": "r"}}, code=200)
    town["member"].settle(path)
    assert town["reader"].get(f"{path}/lock")["lock"]["locked_by"] == "member"


# -- projects ----------------------------------------------------------------------------------------------

MARK = "mark-5e5a3e"
"""In everything that there is to be seen of the stack."""


BELONGS = re.compile(r"\{(stack_name|config_id|deployment_id|action|node_action_id|run)\}")
"""In the routes of what belongs to a project."""

NOT_NOW = {
    "InvalidLifecycleActionToken", "InvalidNodeActionState", "InvalidRestrictedAction", "NotSupported",
    "ResourceActionNotSupported",
}  # fmt: skip
"""Return the stack as its owner sees it."""


def playbook(text: str) -> dict[str, str]:
    """The body that puts one."""
    stage = {"name": "all", "nodes": "all", "action": {"kind": "script", "args": {"text": text}}}
    return {"document": json.dumps({"node_playbook": "2026-11-21", "stages": [stage]})}


EXPIRY = {"expires_at": "2099-01-01T00:00:00Z"}
SCHEDULE = {"name": "holidays", "cron": "0 20 23 12 *", "do": {"suspend": {}}}


class Estate:
    """A stack of project `demo` with all its parts, and every request about it."""

    def __init__(self, owner: Heat, store: Store) -> None:
        self.owner = owner
        made = template(a=value(MARK), h={"type": "OS::Heat::WaitConditionHandle"})
        made |= {"outputs": {"o": {"value": MARK}}, "description": MARK}
        self.path = owner.create(made, name="s", files={"f": MARK})
        self.body = {"stack_name": "s", "template": made, "files": {"f": MARK}}
        snapshot = owner.call("POST", f"{self.path}/snapshots", {"name": MARK}, code=200).json
        owner.settle(self.path)
        config = owner.call(
            "POST", "/software_configs", {"name": MARK, "config": MARK, "inputs": [], "outputs": []}, code=200
        ).json["software_config"]
        given = {"config_id": config["id"], "server_id": "server-1", "input_values": {"i": MARK}}
        deployment = owner.call("POST", "/software_deployments", given, code=200).json["software_deployment"]
        owner.call("POST", f"{self.path}/actions", {"lock": {"level": "stacks", "reason": MARK}}, code=200)
        owner.settle(self.path)
        owner.call("PATCH", self.path, {}, code=409)
        stack = store.stacks.get(self.path.rpartition("/")[2])
        assert stack is not None
        registered(store, stack, "a")
        work = {"node": "a", "kind": "script", "args": {"text": MARK}}
        node_action = owner.call("POST", f"{self.path}/node_actions", work, code=201).json["node_action"]
        owner.call("PUT", "/node_playbooks/maintain", playbook(MARK), code=201)
        run = owner.call("POST", f"{self.path}/node_playbook_runs", {"playbook": "maintain"}, code=202).json["action"]
        (suppressed,) = owner.get(f"{self.path}/lock")["suppressed"]
        self.ids = {
            "stack_name": "s",
            "stack_id": self.path.rpartition("/")[2],
            "resource_name": "a",
            "output_key": "o",
            "snapshot_id": snapshot["id"],
            "suppressed_id": suppressed["id"],
            "config_id": config["id"],
            "deployment_id": deployment["id"],
            "server_id": "server-1",
            "action": owner.get("/actions")["actions"][0]["id"],
            "node_action_id": node_action["id"],
            "playbook": "maintain",
            "run": run["id"],
            "source": "generic",
            "physical_id": owner.get(f"{self.path}/resources/a")["resource"]["physical_resource_id"],
            "token_id": owner.call("POST", "/health_tokens", {"name": MARK}, code=201).json["health_token"]["id"],
            "key_id": owner.call("POST", "/access_keys", code=201).json["access_key"]["id"],
            "schedule_id": owner.call("POST", f"{self.path}/schedules", SCHEDULE, code=201).json["schedule"]["id"],
            "expiry": owner.call("PUT", f"{self.path}/expiry", EXPIRY, code=200).json["expiry"],
            "incident_id": self._incident(store, stack).id,
            "approval_id": self._approval(store, stack).id,
            "number": "1",
            "event_id": owner.get(f"{self.path}/resources/a/events")["events"][0]["id"],
            "type_name": "OS::Heat::Value",
            "version": "heat_template_version.2018-08-31",
        }

    def _incident(self, store: Store, stack: StackRecord) -> IncidentRecord:
        """An incident at which no engine looks for long."""
        incident = IncidentRecord(
            new_id(), stack.project, "grafana", stack.id, stack.id, "a", "a", "type:OS::Heat::Value", "row", "vm",
            IncidentState.OBSERVED, 1.0, 1.0, due=4e9,
        )  # fmt: skip
        with store.transaction():
            store.of(HealingStore).incidents.insert_many([incident])
        return incident

    def _approval(self, store: Store, stack: StackRecord) -> ApprovalRecord:
        """An approval of an update that has to be sent again."""
        approval = ApprovalRecord(
            new_id(), stack.project, Subject.UPDATE, ApprovalState.PENDING, stack.name, stack.id, "d", MARK, MARK, 1.0,
            "k",
        )  # fmt: skip
        with store.transaction():
            store.of(ApprovalStore).insert(approval)
        return approval

    def requests(self, app: Any) -> Iterator[tuple[str, str, object]]:
        """Route, path below the project, and a body that would do."""
        update = {key: what for key, what in self.body.items() if key != "stack_name"}
        bodies: dict[str, object] = {
            f"POST {P}/stacks": self.body,
            f"POST {P}/stacks/preview": self.body,
            f"PUT {S}": update,
            f"PATCH {S}": {},
            f"PUT {S}/preview": update,
            f"PATCH {S}/preview": {},
            f"POST {S}/snapshots": {"name": "n"},
            f"PATCH {R}": {"mark_unhealthy": True},
            f"PATCH {S}/resources": {"marks": [{"resource": "a", "mark_unhealthy": True}]},
            f"POST {P}/access_keys": {},
            f"POST {R}/signal": {},
            f"POST {R}/actions": {"check": {}},
            f"POST {P}/validate": update,
            f"POST {P}/software_configs": {"name": "n", "inputs": [], "outputs": []},
            f"POST {P}/software_deployments": {"config_id": self.ids["config_id"], "server_id": "server-1"},
            f"PUT {P}/software_deployments/{{deployment_id}}": {"status": "COMPLETE"},
            f"POST {P}/actions/{{action}}": {"signal": "CANCEL"},
            f"POST {S}/node_actions": {"node": "a", "kind": "script"},
            f"PUT {P}/node_playbooks/{{playbook}}": playbook(""),
            f"POST {S}/node_playbook_runs": {"playbook": "maintain"},
            f"POST {P}/health/{{source}}": {"reports": [{"key": "k", "status": "healthy"}]},
            f"PUT {P}/health/{{source}}": {"reports": [{"key": "k", "status": "healthy"}]},
            f"PUT {P}/health/{{source}}/config": {"format": "generic"},
            f"POST {P}/health_tokens": {"name": MARK},
            f"POST {P}/approvals/{{approval_id}}/approve": {"digest": "d"},
            f"POST {P}/approvals/{{approval_id}}/reject": {},
            f"PUT {S}/change_policy": {"change_policy": "2026-11-28"},
            f"PUT {P}/change_policy": {"change_policy": "2026-11-28"},
            f"PUT {S}/healing": {"healing_policy": "2026-11-22"},
            f"POST {S}/healing/acknowledge": {"scope": "a"},
            f"POST {S}/schedules": SCHEDULE,
            f"PUT {S}/schedules/{{schedule_id}}": SCHEDULE,
            f"PUT {S}/expiry": EXPIRY,
            f"POST {P}/incidents/{{incident_id}}/close": {},
            f"POST {P}/incidents/{{incident_id}}/approve": {"plan_digest": "d"},
        }
        for route in routes(app):
            if route in OPEN:
                continue
            path = route.partition(" " + P)[2]
            assert path, f"{route} is neither open nor below a project"
            variants = [path.replace("{stack_name}", self.ids["stack_id"]), path] if "stack_id" not in path else [path]
            for one in dict.fromkeys(variants):
                filled = re.sub(r"\{(\w+)\}", lambda found: str(self.ids[found[1]]), one)
                if route == f"POST {S}/actions":
                    for action in ACTIONS:
                        later = {"not_before": "2099-01-01T00:00:00Z"}
                        values = {
                            "complete_lifecycle": {"lifecycle_action_token": "t"},
                            "update": {**later, "plan_digest": "d"},
                            "delete": later,
                        }
                        yield route, filled, {action: values.get(action)}
                elif route == f"GET {P}/resources":
                    yield route, f"{filled}?physical_resource_id={self.ids['physical_id']}", None
                else:
                    yield route, filled, bodies.get(route)
                if route == f"GET {P}/stacks":
                    yield route, f"{filled}?global_tenant=True&show_nested=True&show_deleted=True", None
                if route == f"GET {P}/software_configs":
                    yield route, f"{filled}?global_tenant=True", None
        arn = f"/stacks/arn:openstack:heat::demo:stacks/s/{self.ids['stack_id']}"
        yield from (("ARN", arn, None), ("ARN", f"{arn}/resources", None))

    def look(self) -> list[object]:
        """All that can be seen of it."""
        looks = ("", "/template", "/environment", "/files", "/outputs", "/lock", "/resources", "/events", "/snapshots")
        rest = (
            "/stacks?show_deleted=True", "/actions", "/node_actions", "/node_playbooks/maintain", "/software_configs",
            "/software_deployments",
        )  # fmt: skip
        return [self.owner.get(path) for path in (*(self.path + below for below in looks), *rest)]


@pytest.mark.slow
def test_a_stranger_sees_and_touches_nothing(own_town: Town) -> None:
    """Every route, with every method, by everybody who has no business there."""
    estate, app = Estate(own_town["member"], own_town.server.store), own_town.server.app
    before = estate.look()
    asked = list(estate.requests(app))
    assert {route for route, _, _ in asked} == {*routes(app), "ARN"} - OPEN
    callers = {
        "nobody": (Heat(app), {401}),
        "unknown": (Heat(app, proof={"X-Auth-Token": "unknown"}), {401}),
        "foreign": (Heat(app, proof=basic("member", own_town.tokens["member"])), {401}),
        "expired": (own_town["expired"], {401}),
        "nowhere": (own_town["nowhere"], {403}),
        "stranger": (own_town["stranger"], {403}),
    }
    for name, (who, codes) in callers.items():
        for route, path, body in asked:
            answer = who.call("GET" if route == "ARN" else route.split()[0], path, body)
            assert answer.status_int in codes, f"{name}: {route} {path}: {answer.status} {answer.text}"
            assert MARK not in answer.text
    stranger = own_town["stranger"].of("other")
    for route, path, body in asked:
        if route == f"POST {P}/stacks":
            continue  # that makes one of his own
        answer = stranger.call("GET" if route == "ARN" else route.split()[0], path, body)
        if route == "ARN" or "global_tenant" in path or BELONGS.search(route):
            assert answer.status_int in (403, 404), f"{route} {path}: {answer.status} {answer.text}"
        if route == f"POST {P}/software_deployments":
            assert answer.status_int in (400, 404), "a config of another project"
        if not route.startswith("POST"):  # what is sent comes back
            assert MARK not in answer.text, f"{route} {path}: {answer.text}"
        assert estate.ids["stack_id"] not in answer.headers.get("Location", "")
    assert estate.look() == before


@pytest.mark.slow
def test_the_owner_gets_all_of_that(own_town: Town) -> None:
    """The secrets of the test above are visible to permitted callers."""
    estate = Estate(own_town["admin"], own_town.server.store)
    asked = sorted(estate.requests(own_town.server.app), key=lambda one: not one[0].startswith("GET"))
    for route, path, body in asked:
        answer = own_town["admin"].call("GET" if route == "ARN" else route.split()[0], path, body)
        if route.startswith("GET"):
            # There is no server here to stream, and no revision before the first one.
            absent = (f"GET {P}/events", f"GET {S}/revisions/{{number}}/diff")
            assert answer.status_int in (200, 302) or route in absent, f"{route} {path}: {answer.text}"
        else:
            fine = answer.status_int != 400 or answer.json["error"]["type"] in NOT_NOW
            assert fine and answer.status_int not in (401, 403, 405, 500), f"{route} {path}: {answer.text}"


DEEP = (
    ("GET", "", None, 200), ("GET", "/metadata", None, 200), ("GET", "/events", None, 200),
    ("PATCH", "", {"mark_unhealthy": True}, 200), ("POST", "/actions", {"resize": {}}, 400),
    ("POST", "/signal", {}, 400),
)  # fmt: skip
"""Requests to a path into nested stacks, and the answer to a member."""


@pytest.mark.parametrize(("method", "below", "body", "code"), few(DEEP))
def test_a_path_into_nested_stacks_has_the_rights_of_its_route(
    town: Town, method: str, below: str, body: object, code: int
) -> None:
    member = {"type": "OS::Heat::TestResource"}
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": member}}
    path = f"{town['member'].create(template(g=group))}/resources/g/0{below}"
    reads = {"GET": code}.get(method, 403)
    for who, expected in (
        ("member", code), ("reader", reads), ("nothing", 403), ("stranger", 403), ("expired", 401),
        ("heat_stack_user", 403),
    ):  # fmt: skip
        expected = 200 if (who, below) == ("heat_stack_user", "/metadata") else expected
        expected = 400 if (who, below) == ("heat_stack_user", "/signal") else expected
        found = town[who].call(method, path, body)
        assert found.status_int == expected, f"{who}: {found.text}"
        town["member"].settle(path.partition("/resources")[0])
    Heat(town.server.app, town.project).call(method, path, body, code=401)


def test_open_is_what_has_to_be(own_town: Town) -> None:
    nobody = Heat(own_town.server.app)
    for path, code in (("/", 300), ("/versions", 300), ("/v1", 200), ("/v1/", 200), ("/healthcheck", 200)):
        assert nobody.app.get(path, status=code)
    for method in ("OPTIONS", "HEAD", "TRACE"):
        assert nobody.app.request("/v1/demo/stacks", method=method, expect_errors=True).status_int == 401


@pytest.mark.slow
def test_a_signed_url_needs_no_token(own_town: Town) -> None:
    estate, nobody = Estate(own_town["member"], own_town.server.store), Heat(own_town.server.app)
    own_town["member"].call("POST", f"{estate.path}/actions", {"unlock": None}, code=200)
    own_town["member"].settle(estate.path)
    components = own_town.server.components
    stack = components.store.stacks.get(str(estate.ids["stack_id"]))
    assert stack is not None
    handle = components.reader.resources_of(stack).make(components.reader.resource(stack, "h"))
    assert isinstance(handle, Signalled)
    for number, form in enumerate((NATIVE, "signal", "waitcondition")):
        url = handle.signed_url(form).partition("127.0.0.1:0")[2]
        sent = {"status": "SUCCESS", "id": f"i{number}", "data": "d"}
        nobody.call("POST" if form == NATIVE else "PUT", url, sent, code=200)
        forged = re.sub(r"Signature=[^&]*$", "Signature=zz", url)
        assert forged != url
        for heat in (nobody, own_town["stranger"]):
            heat.call("POST" if form == NATIVE else "PUT", forged, sent, code=403)
    proof = {"X-Auth-Token": handle.token}
    nobody.call("POST", handle.url("signal").partition("127.0.0.1:0")[2], {}, headers=proof, code=200)
    shown = json.dumps(own_town["member"].get(f"{estate.path}/resources/h/metadata"))
    assert all(f"i{number}" in shown for number in range(3))
    nobody.call("POST", handle.signed_url(NATIVE).partition("127.0.0.1:0")[2].partition("?")[0], {}, code=401)


def test_a_web_page_of_another_site_is_refused_whoever_looks_at_it(town: Town) -> None:
    for heat in (Heat(town.server.app), town["admin"]):
        heat.call("GET", "/stacks", headers={"Origin": "http://evil.example"}, code=403)


def test_a_server_that_asks_has_any_name(town: Town) -> None:
    assert town["member"].call("GET", "/stacks", headers={"Host": "cloud.example:8004"}, code=200)


@pytest.mark.slow
def test_accounts_are_written(tmp_path: Path, serve: Serve) -> None:
    settings = Settings(database="", users_file=str(tmp_path / "users"), tokens_file=str(tmp_path / "tokens.toml"))
    for name, password in (("mia", "one"), ("b.o b", "two"), ("mia", "three")):
        modes.add_user(settings, name, password, {"demo": frozenset({"member"}), "x/y": frozenset({"reader"})})
    for file in ("users", "users.toml"):
        assert (tmp_path / file).stat().st_mode & 0o777 == 0o600
    assert "three" not in (tmp_path / "users").read_text()
    app = serve(auth=Auth.BASIC).app
    Heat(app, proof=basic("mia", "three")).get("/stacks")
    Heat(app, proof=basic("b.o b", "two")).get("/stacks")
    Heat(app).call("GET", "/stacks", headers=basic("mia", "one"), code=401)
    for name, password in (("a:b", "x"), ("", "x"), ("#a", "x"), ("a\nb", "x"), ("mia", ""), ("mia", "p" * 73)):
        with pytest.raises(BadSetting):
            modes.add_user(settings, name, password, {})
    assert sorted(file.name for file in tmp_path.iterdir() if file.name.startswith("users")) == ["users", "users.toml"]


# -- resource types ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_types_that_only_administrators_may_use(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """A type that policy forbids is refused, whichever way it gets into the stack."""
    kind = "OS::Heat::TestResource"
    monkeypatch.setitem(TABLE, f"resource_types:{kind}", frozenset({"admin"}))
    guarded = {"type": kind, "properties": {"value": "v"}}
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": guarded}}
    file = {"f.yaml": json.dumps(template(a=guarded))}
    ways: list[dict[str, Any]] = [
        {"template": template(a=guarded)},
        {"template": template(a=group)},
        {"template": template(a={"type": "f.yaml"}), "files": file},
        {
            "template": template(a={"type": "Mine", "properties": guarded["properties"]}),
            "environment": {"resource_registry": {"Mine": kind}},
        },
    ]
    refused = f"You are not authorized to use {kind}."
    path = town["member"].create(template(a=value()))
    for way in ways:
        for method, url, body in (
            ("POST", "/stacks", {"stack_name": "t", **way}),
            ("POST", "/stacks/preview", {"stack_name": "t", **way}),
            ("POST", "/validate", way),
            ("PUT", path, way),
            ("PATCH", path, way),
        ):
            assert town["member"].fault(method, url, body, code=403)[1] == refused, (method, url, way)
            if url in ("/stacks/preview", "/validate"):
                town["admin"].call(method, url, body, code=200)
    shown = town["member"].get(path)["stack"]
    assert shown["stack_status"] == "CREATE_COMPLETE"
    listed = {name: town[name].get("/resource_types")["resource_types"] for name in ("member", "admin")}
    assert kind in listed["admin"]
    assert kind not in listed["member"]
    assert "OS::Heat::Value" in listed["member"]
    described = town["member"].get("/resource_types?with_description=true")["resource_types"]
    assert [one["resource_type"] for one in described] == listed["member"]
    town["member"].call("GET", f"/resource_types/{kind}", code=403)
    town["member"].call("GET", f"/resource_types/{kind}/template", code=403)
    town["admin"].get(f"/resource_types/{kind}")


@pytest.mark.parametrize("name", ["OS::Keystone::Project", "OS::Keystone::Anything"])
def test_a_rule_for_all_types_of_a_service(name: str) -> None:
    for role, allowed in (("member", False), ("admin", True)):
        assert Table({}).allows(f"resource_types:{name}", Context("demo", roles=frozenset({role}))) is allowed
    assert Table({}).allows("resource_types:OS::Heat::Value", Context("demo", roles=frozenset({"member"})))


# -- ourselves ---------------------------------------------------------------------------------------------


def test_this_server_knows_itself_for_five_minutes_in_one_project(own_town: Town, clock: SlowClock) -> None:
    self_auth = own_town.server.components.self_auth
    assert self_auth is not None
    proof = self_auth.headers("other")
    Heat(own_town.server.app, "other", proof).create(template(a=value()))
    Heat(own_town.server.app, "other", proof).call("GET", "/services", code=403)
    Heat(own_town.server.app, "demo", proof).call("GET", "/stacks", code=401)
    (claim,) = proof.values()
    until, _, signature = claim.partition(":")
    for wrong in (claim[:-1], f"{int(until) + 1}:{signature}", until, f":{signature}", "\xe4:\xe4", f"{until}:\xe4"):
        Heat(own_town.server.app, "other", {"X-Heatlite-Self": wrong}).call("GET", "/stacks", code=401)
    stranger = SelfAuth(Cipher([new_key()], ""), clock)
    Heat(own_town.server.app, "other", stranger.headers("other")).call("GET", "/stacks", code=401)
    clock.ahead += 301
    Heat(own_town.server.app, "other", proof).call("GET", "/stacks", code=401)
