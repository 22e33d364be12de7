"""A server process, and browsers of its users: Debian's Chromium, with JavaScript.

Each page that a story opens is checked with axe-core, and may write nothing to the console, where violations of the
content security policy appear. HEATLITE_TEST_SCREENSHOTS names a folder for screenshots.
"""

import json
import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from tests.acceptance.processes import Server
from tests.api.conftest import Heat

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (requirements/dev.txt)")
CHROMIUM = Path("/usr/bin/chromium")
NEEDS_CHROMIUM = pytest.mark.skipif(not CHROMIUM.exists(), reason="needs /usr/bin/chromium")

PATIENCE = 240_000
"""Milliseconds that a test waits for the browser."""
playwright.expect.set_options(timeout=PATIENCE)
AXE = Path(__file__).parent / "vendor/axe-core-4.14.1/axe.min.js"
SHOTS = Path(folder) if (folder := os.environ.get("HEATLITE_TEST_SCREENSHOTS")) else None
"""An existing folder."""
PASSWORD = "right horse"
PHONE = {"width": 390, "height": 800}
DESKTOP = {"width": 1280, "height": 860}
ZOOMED = {"width": 640, "height": 430}
"""The same window at 200 %, in pixels of the style sheet."""


@dataclass
class Reply:
    """An answer of the server process."""

    status_int: int
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Api(Heat):
    """The API of the server process, for what a story needs before it begins."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.root = "/v1/demo"

    def call(  # type: ignore[override]
        self, method: str, path: str, body: object = None, code: int | None = None, headers: Mapping[str, str] = {}
    ) -> Reply:
        proof = b64encode(f"mia:{PASSWORD}".encode()).decode()
        sent = {"Content-Type": "application/json", "Authorization": f"Basic {proof}", **headers}
        connection = HTTPConnection("127.0.0.1", self.server.port, timeout=240)
        with closing(connection):
            url = path if path.startswith("/v1/") else self.root + path
            connection.request(method, url, None if body is None else json.dumps(body), sent)
            response = connection.getresponse()
            reply = Reply(response.status, response.read().decode())
        assert code in (None, reply.status_int), f"{method} {url}: {reply.text}"
        return reply


class User:
    """A browser of one user. Every page it opens is checked."""

    def __init__(self, browser: Any, server: Server, name: str = "mia", **options: Any) -> None:
        self.server, self.name = server, name
        self.context = browser.new_context(**{"viewport": DESKTOP, **options})
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.console: list[str] = []
        self.page.on("console", lambda message: self.console.append(message.text))
        self.page.on("pageerror", lambda error: self.console.append(str(error)))

    def open(self, path: str) -> Any:
        """Open a page of the project."""
        self.page.goto(f"{self.server.url}/ui/p/demo{path}")
        return self.page

    def log_in(self) -> None:
        """Log in with the form that each page leads to."""
        self.page.get_by_label("Name").fill(self.name)
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.get_by_role("button", name="Log in").click()
        playwright.expect(self.page.get_by_role("button", name="Log out")).to_be_visible()

    def picture(self, name: str) -> None:
        """Check that the page is no wider than the window, and write its screenshot."""
        self.page.wait_for_load_state()
        if SHOTS is not None:
            self.page.screenshot(path=str(SHOTS / f"{name}.png"), full_page=True)
        wide = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{name} is {wide} pixels wider than the window"

    def check(self, name: str) -> None:
        """Check the page as it is."""
        self.picture(name)
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text())
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        nodes = [(one["id"], node) for one in found for node in one["nodes"]]
        shown = [f"{rule}: {node['html'][:160]} {node['failureSummary']}" for rule, node in nodes]
        assert not shown, f"{name}: " + "\n".join(shown)
        # Chromium reports the code of a page that refuses a form.
        assert [line for line in self.console if "the server responded with a status of 4" not in line] == [], name

    def press(self, button: str) -> None:
        """Press a button by its text."""
        self.page.get_by_role("button", name=button, exact=True).first.click()

    def sees(self, text: str | re.Pattern[str]) -> None:
        """Wait for a text."""
        playwright.expect(self.page.get_by_text(text).first).to_be_visible()

    def close(self) -> None:
        self.context.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("browser")
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    (folder / "users").write_text(f"mia:{hashed}\nrob:{hashed}\nann:{hashed}\n")
    (folder / "users.toml").write_text('[mia]\ndemo = ["member"]\n[rob]\ndemo = ["member"]\n[ann]\ndemo = ["admin"]\n')
    settings = {"HEATLITE_UI": "true", "HEATLITE_AUTH": "basic", "HEATLITE_USERS_FILE": str(folder / "users")}
    started = Server(folder, HEATLITE_NODE_APPROVAL_BY_ANOTHER="true", **settings)
    yield started
    started.stop()
    assert started.complaints() == ""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        # Without the process that stands in for a GPU.
        words = ["--no-sandbox", "--disable-gpu"]
        started = driver.chromium.launch(executable_path=str(CHROMIUM), args=words, timeout=PATIENCE)
        yield started
        started.close()


@pytest.fixture
def visit(server: Server, browser: Any) -> Iterator[Callable[..., User]]:
    """Opens the browser of a user who has logged in."""
    users: list[User] = []

    def begin(name: str = "mia", **options: Any) -> User:
        users.append(User(browser, server, name, **options))
        users[-1].open("")
        users[-1].log_in()
        return users[-1]

    yield begin
    for user in users:
        user.close()


@pytest.fixture
def api(server: Server) -> Api:
    return Api(server)
