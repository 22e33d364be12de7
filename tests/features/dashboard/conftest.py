"""The dashboard over the real application, for a browser without JavaScript."""

import shlex
from collections.abc import Iterator
from datetime import datetime

import pytest
from webtest import TestApp, TestResponse

from heatlite import wiring
from heatlite.cli.main import parse, with_features
from heatlite.core.config import Settings
from heatlite.feature import installed
from heatlite.features.dashboard.app import pages_of
from heatlite.features.dashboard.feature import DashboardSettings
from heatlite.features.dashboard.pages.project import forms_of
from heatlite.features.dashboard.pages.stack import DEEDS
from tests.api.conftest import Heat
from tests.databases import sqlite

ADDED = pages_of(Settings(database=""))
PROJECT_FORMS = {*forms_of(ADDED)}
STACK_FORMS = {*DEEDS}.union(*(one.stack_forms for one in ADDED))


def check_command(line: str) -> None:
    """Fail unless a page's command line is one of `heatlite`, or of python-heatclient."""
    words = shlex.split(line)
    if words[0].startswith("HEATLITE_TOKEN="):
        del words[0]
    if words[0] == "openstack":
        assert " ".join(words[1:4]) in ("stack snapshot list",), line
        return
    assert words[0] == "heatlite"
    try:
        parse(words[1:], with_features(installed()))
    except SystemExit:
        pytest.fail(f"not a command line: {line}")


class Browser:
    """A browser without JavaScript."""

    def __init__(self, app: object, project: str = "demo") -> None:
        self.app = TestApp(app)
        self.heat = Heat(app, project)
        self.home = f"/ui/p/{project}"

    def get(self, path: str, code: int = 200) -> TestResponse:
        """A page, which has the same as a command line."""
        answer = self.app.get(path if path.startswith("/ui") else self.home + path, status=code)
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert answer.headers["Cache-Control"] == "no-store"
        if "text/html" in answer.content_type:
            buttons = answer.html.find("aside", {"class": "cli"}).find_all("button")
            assert buttons
            for one in buttons:
                check_command(one["data-copy"])
            for one in answer.html.find_all("time"):
                assert datetime.fromisoformat(one["datetime"]).tzinfo, "a browser takes this for its own zone"
        return answer

    def post(self, page: TestResponse, action: str, code: int = 303, **fields: str) -> TestResponse:
        """Send the form of a page whose address ends so."""
        form = next(one for one in page.forms.values() if one.action.endswith(action))
        for name, value in fields.items():
            form[name] = value
        answer = form.submit(status=code)
        return answer.follow() if code == 303 else answer


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[wiring.Embedded]:
    database = sqlite(tmp_path_factory.mktemp("ui"))
    server = wiring.embedded(Settings(database=database, of_features=(DashboardSettings(ui=True),)))
    yield server
    server.close()


@pytest.fixture
def browser(server: wiring.Embedded) -> Browser:
    return Browser(server.app)
