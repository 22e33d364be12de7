"""Login, sessions and their end."""

import re
from collections.abc import Callable, Iterable, Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from wsgiref.types import WSGIApplication

import bcrypt
import pytest

from heatlite import wiring
from heatlite.api.access.account_files import add_token
from heatlite.api.access.policy import TABLE
from heatlite.core.clock import Clock
from heatlite.core.config import Auth, Settings
from heatlite.engine.execution.retention import Retention
from heatlite.features.dashboard import sessions
from heatlite.features.dashboard.feature import DashboardSettings
from tests.api.conftest import Heat, template, value
from tests.databases import sqlite
from tests.features.nodes.registered_nodes import registered
from tests.tables import few

from .conftest import PROJECT_FORMS, STACK_FORMS, Browser


class LateClock(Clock):
    """The machine's clock, some seconds ahead."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


Serve = Callable[..., wiring.Embedded]
STACK_PAGES = (
    "", "/progress", "/outputs", "/snapshots", "/health", "/lock", "/nodes", "/schedules", "/history", "/values",
    "/delete",
)  # fmt: skip
PROJECT_PAGES = ("", "/approvals", "/actions", "/healing", "/nodes", "/playbooks", "/schedules", "/audit")


@pytest.fixture
def clock() -> LateClock:
    return LateClock()


@pytest.fixture
def serve(tmp_path: Path, clock: LateClock) -> Iterator[Serve]:
    """Start a server with users mia (member) and rob (reader), password ``right``."""
    hashed = bcrypt.hashpw(b"right", bcrypt.gensalt(4)).decode()
    (tmp_path / "users").write_text(f"mia:{hashed}\nrob:{hashed}\n")
    (tmp_path / "users.toml").write_text('[mia]\ndemo = ["member"]\n[rob]\ndemo = ["reader"]\nlab = ["reader"]\n')
    started = []

    def start(**settings: Any) -> wiring.Embedded:
        files = {"users_file": str(tmp_path / "users"), "tokens_file": str(tmp_path / "tokens.toml")}
        settings = {"database": sqlite(tmp_path), **files, **settings}
        started.append(wiring.embedded(Settings(of_features=(DashboardSettings(ui=True),), **settings), clock=clock))
        return started[-1]

    yield start
    for one in started:
        one.close()


def log_in(browser: Browser, code: int = 303, **fields: str) -> Any:
    """Send the login form."""
    form = next(one for one in browser.app.get("/ui/login").forms.values() if one.action.endswith("/login"))
    for name, typed in fields.items():
        form[name] = typed
    return form.submit(status=code)


@pytest.mark.slow
def test_a_password_begins_a_session_that_the_api_ignores(serve: Serve) -> None:
    server = serve(auth=Auth.BASIC)
    browser = Browser(server.app)
    assert browser.app.get("/ui/p/demo", status=303).location.endswith("/ui/login?next=%2Fp%2Fdemo")
    (before,) = browser.app.cookies.values()
    assert "wrong" in log_in(browser, 401, user="mia", password="left").text
    log_in(browser, user="mia", password="right")
    (key,) = browser.app.cookies.values()
    assert key != before
    page = browser.get("")
    assert "mia" in page.text
    assert re.search(r"right|bWlh", page.text) is None
    browser.app.get("/v1/demo/stacks", status=401)
    (row,) = server.store.database.read("SELECT digest, content FROM ui_session")
    assert key not in str(row)
    next(one for one in page.forms.values() if one.action.endswith("/logout")).submit(status=303)
    assert server.store.database.read("SELECT digest FROM ui_session") == []
    browser.app.get("/ui/p/demo", status=303)


@pytest.mark.slow
def test_the_cookie_is_bound_to_the_host_with_https(serve: Serve) -> None:
    answer = Browser(serve(auth=Auth.BASIC, public_url="https://heat.example/api").app).app.get("/ui/login")
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("__Host-heatlite-")
    assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"} <= set(cookie.split("; "))
    assert "/api/ui/static/" in answer.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("addresses", "is_set"),
    few([(("http://a.test:8004", "http://a.test:8005"), False), (("http://a.test/one", "http://a.test/two"), True)]),
)
def test_servers_of_one_host_keep_their_sessions(
    serve: Serve, tmp_path: Path, addresses: tuple[str, str], is_set: bool
) -> None:
    """Browsers send a cookie to all ports of its host."""
    cookies, browsers = CookieJar(), []
    for number, address in enumerate(addresses):
        folder, place = tmp_path / str(number), urlsplit(address)
        folder.mkdir()
        server = serve(auth=Auth.BASIC, database=sqlite(folder), public_url=address if is_set else None)
        browser = Browser(behind_proxy(server.app, place.path))
        browser.app.cookiejar = cookies
        browser.app.extra_environ["HTTP_HOST"] = place.netloc
        log_in(browser, user="mia", password="right")
        browsers.append(browser)
    for browser in browsers:
        browser.get("")


def behind_proxy(app: WSGIApplication, prefix: str) -> WSGIApplication:
    """The application below a path."""

    def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        return app({**environ, "PATH_INFO": environ["PATH_INFO"].removeprefix(prefix)}, start_response)

    return serve


@pytest.mark.slow
def test_a_session_expires_and_its_row_goes(serve: Serve, clock: LateClock) -> None:
    server = serve(auth=Auth.BASIC)
    browser = Browser(server.app)
    log_in(browser, user="mia", password="right")
    page = browser.get("")
    clock.ahead = 8 * 3600 + 1
    browser.app.get("/ui/p/demo", status=303)
    assert "/ui/login" in browser.app.get("/ui/p/demo", headers={"HX-Request": "true"}).headers["HX-Redirect"]
    next(one for one in page.forms.values() if one.action.endswith("/logout")).submit(status=303)
    log_in(browser, user="mia", password="right")
    clock.ahead *= 2
    Retention(server.store, clock, Settings(database="")).sweep()
    assert server.store.database.read("SELECT digest FROM ui_session") == []


@pytest.mark.slow
def test_a_long_form_outlives_its_session(serve: Serve, clock: LateClock) -> None:
    browser = Browser(serve(auth=Auth.BASIC).app)
    log_in(browser, user="mia", password="right")
    form = browser.get("/new").forms[1]
    form["stack_name"], form["template"] = "kept", "heat_template_version: 2021-04-16\n# typed\n"
    clock.ahead = 8 * 3600 + 1
    page = form.submit("step", value="plan", status=401)
    assert page.html.find("a", string="Log in in a new tab")["href"] == "/ui/login?next=%2Fp%2Fdemo%2Fnew"
    log_in(browser, user="mia", password="right")
    page = form.submit("step", value="plan", status=403)  # as a reload of the page does
    assert "# typed" in page.forms[1]["template"].value
    assert "Plan" in page.forms[1].submit("step", value="plan").text


@pytest.mark.slow
def test_a_playbook_and_a_policy_outlive_the_session(serve: Serve, clock: LateClock) -> None:
    app = serve(auth=Auth.BASIC).app
    path = Heat(app, "demo", {"Authorization": "Basic bWlhOnJpZ2h0"}).create(
        {"heat_template_version": "2021-04-16"}, name="s"
    )
    for page, deed, field in (("/playbooks", "playbook", "document"), (f"{path}/health", "policy", "policy")):
        browser = Browser(app)
        log_in(browser, user="mia", password="right")
        form = next(one for one in browser.get(page).forms.values() if one.action.endswith(f"/do/{deed}"))
        form[field] = "# typed"
        if deed == "playbook":
            form["name"] = "maintain"
        clock.ahead += 8 * 3600 + 1
        assert "Log in in a new tab" in form.submit(status=401).text
        log_in(browser, user="mia", password="right")
        answer = form.submit(status=403)  # as a reload of the page does
        assert answer.html.body["data-page"] == browser.home + page
        form = next(one for one in answer.forms.values() if one.action.endswith(f"/do/{deed}"))
        assert form[field].value == "# typed"
        assert "Not done." in form.submit(status=400).text  # the token is right, the text is not


@pytest.mark.slow
def test_a_link_outlives_the_session(serve: Serve) -> None:
    """With its query, and with any name."""
    app = serve(auth=Auth.BASIC).app
    heat = Heat(app, "demo", {"Authorization": "Basic bWlhOnJpZ2h0"})
    names = {name: value() for name in ("a?b", "a%20b", "ü")}
    path = heat.create(template(**names), name="s")
    links = [f"{path}/resources/{quote(name)}" for name in names]
    for link in ("/audit?user=mia&outcome=refused", f"{path}?toggle=a%26b", *links):
        browser = Browser(app)
        form = browser.app.get(f"/ui/p/demo{link}", status=303).follow().forms[0]
        form["user"], form["password"] = "mia", "right"
        assert form.submit(status=303).location.endswith(f"/ui/p/demo{link}")


@pytest.mark.slow
def test_login_pages_of_several_tabs(serve: Serve) -> None:
    """Each browser has one cookie: that of the page that was loaded last."""
    browser = Browser(serve(auth=Auth.BASIC).app)
    first = browser.app.get("/ui/login?next=%2Fp%2Fdemo%2Flock").forms[0]
    browser.app.reset()
    browser.app.get("/ui/login")
    first["user"], first["password"] = "mia", "right"
    page = first.submit(status=403)
    assert page.forms[0]["user"].value == "mia"
    page.forms[0]["password"] = "right"
    assert page.forms[0].submit(status=303).location.endswith("/ui/p/demo/lock")
    # That tab has logged in meanwhile; another user has not.
    assert first.submit(status=303).location.endswith("/ui/p/demo/lock")
    first["user"] = "rob"
    assert first.submit(status=403).forms[1]["user"].value == "rob"


@pytest.mark.slow
def test_a_new_session_brings_new_tokens_to_an_open_page(serve: Serve) -> None:
    """A refresh is answered although nothing else has changed."""
    browser = Browser(serve(auth=Auth.BASIC).app)
    log_in(browser, user="mia", password="right")
    tag = {"If-None-Match": browser.get("/approvals").html.body["data-tag"]}
    browser.app.get("/ui/p/demo/approvals", headers=tag, status=304)
    log_in(browser, user="mia", password="right")
    browser.app.get("/ui/p/demo/approvals", headers=tag, status=200)


@pytest.mark.slow
def test_the_policy_decides_what_is_shown_and_done(serve: Serve) -> None:
    app = serve(auth=Auth.BASIC).app
    proof = Heat(app, "demo", {"Authorization": "Basic bWlhOnJpZ2h0"})
    path = proof.create({"heat_template_version": "2021-04-16"}, name="s")
    rob = Browser(app)
    assert log_in(rob, user="rob", password="right").follow().location.endswith("/ui/projects")
    for parts, allowed in ((STACK_PAGES, {f"/ui/p/demo{path}/do/check"}), (PROJECT_PAGES, set())):
        base = path if allowed else ""
        pages = [rob.get(base + part) for part in parts]
        assert {one.action for page in pages for one in page.forms.values() if "/do/" in one.action} == allowed
    csrf = rob.get(path).forms[0]["csrf"].value
    for base, deeds in ((f"/ui/p/demo{path}", {*STACK_FORMS} - {"check", "delete"}), ("/ui/p/demo", {*PROJECT_FORMS})):
        # The rule of a decision depends on its subject, and there is none.
        for deed in deeds - {"mark", "decide", "approve_change", "reject_change"}:
            fields = {"csrf": csrf, "id": "1", "snapshot": "1", "signal": "CANCEL", "name": "a", "document": "a: 1"}
            rob.app.post(f"{base}/do/{deed}", {**fields, "policy": "mode: off"}, status=403)
    for page in ("/new", f"{path}/change"):
        rob.get(page, code=403)
    rob.get("/ui/p/other", code=403)


@pytest.mark.slow
def test_pages_of_an_unhealthy_resource_refuse_nothing(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader asks for no plan. A user who may not mark has no button for it."""
    app = serve(auth=Auth.BASIC).app
    heat = Heat(app, "demo", {"Authorization": "Basic bWlhOnJpZ2h0"})
    path = heat.create(template(a=value()), name="s")
    heat.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": True}, code=200)
    rob, mia = Browser(app), Browser(app)
    log_in(rob, user="rob", password="right")
    assert "not authorized" not in rob.get(f"{path}/health").text
    monkeypatch.setitem(TABLE, "resource:mark_unhealthy", frozenset())
    log_in(mia, user="mia", password="right")
    for page in (f"{path}/resources/a", f"{path}/health"):
        shown = mia.get(page)
        assert "Heal" in shown.text
        assert not [one for one in shown.forms.values() if one.action.endswith("/do/mark")]


@pytest.mark.slow
def test_a_policy_for_approvals_only_hides_the_rejection(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(auth=Auth.BASIC)
    heat = Heat(server.app, "demo", {"Authorization": "Basic bWlhOnJpZ2h0"})
    path = heat.create(template(a=value()), name="s")
    stack = server.store.stacks.by_name("demo", "s")
    assert stack is not None
    registered(server.store, stack, "a")
    heat.call("POST", f"{path}/node_actions", {"node": "a", "kind": "script", "args": {"config": "true"}}, code=201)
    mia = Browser(server.app)
    log_in(mia, user="mia", password="right")

    def actions() -> set[str]:
        return {one.action.rpartition("/")[2] for one in mia.get("/approvals").forms.values()}

    assert {"approve", "reject"} <= actions()
    monkeypatch.setitem(TABLE, "node_actions:reject", frozenset())
    assert "approve" in actions()
    assert "reject" not in actions()


@pytest.mark.slow
def test_a_user_has_a_limited_number_of_sessions(
    serve: Serve, clock: LateClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that logs in for ever does not fill the disk. The newest sessions stay."""
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 2)
    server = serve(auth=Auth.BASIC)
    browsers = [Browser(server.app) for _ in range(3)]
    other = Browser(server.app)
    log_in(other, user="rob", password="right")
    for browser in browsers:
        clock.ahead += 1
        log_in(browser, user="mia", password="right")
    assert [one.app.get("/ui/p/demo", expect_errors=True).status_int for one in browsers] == [303, 200, 200]
    other.app.get("/ui/p/demo", status=200)


@pytest.mark.slow
def test_failed_logins_are_delayed_as_those_of_the_api(serve: Serve) -> None:
    browser = Browser(serve(auth=Auth.BASIC).app)
    for _ in range(6):
        log_in(browser, 401, user="mia", password="left")
    assert "Too many" in log_in(browser, 429, user="mia", password="right").text


@pytest.mark.slow
def test_a_token_begins_a_session_until_it_is_revoked(serve: Serve, tmp_path: Path) -> None:
    token = add_token(tmp_path / "tokens.toml", "ci", {"demo": frozenset({"member"})}, None)
    browser = Browser(serve(auth=Auth.TOKENS).app)
    log_in(browser, 401, token="guessed")
    log_in(browser, token=token, next="/p/demo?status=FAILED")
    assert "ci" in browser.get("").text
    (tmp_path / "tokens.toml").write_text("")
    browser.app.get("/ui/p/demo", status=303)
