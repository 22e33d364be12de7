"""Fixtures of the fault tests: databases, engines, and a cloud that is a folder."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from uuid import uuid4

import pytest

from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.runtime.extras import MissingLibrary
from heatlite.store.store import Store
from tests.databases import EACH_SERVER, SERVERS, whole
from tests.faults.servers import NoServer, Server

EXAMPLE = str(Path(__file__).parents[1] / "example_plugin")

LEASE = 2.0
"""Seconds: the shortest lease that an engine renews in time, which looks once a second."""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the example plugin's objects, here and in child processes."""
    folder = tmp_path / "files"
    folder.mkdir()
    monkeypatch.setenv("EXAMPLE_FILES", str(folder))
    monkeypatch.syspath_prepend(EXAMPLE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([EXAMPLE, *sys.path]))
    return folder


@pytest.fixture(params=EACH_SERVER)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of the test's own, with tables, on a server that others use too."""
    found = SERVERS[request.param]
    with ExitStack() as made:
        try:
            url = made.enter_context(found.database(f"heatlite_faults_{uuid4().hex[:12]}"))
        except (DatabaseUnavailable, MissingLibrary) as error:
            pytest.skip(f"no {request.param} to test with ({found.variable} names one): {error}")
        store = whole(url)
        store.upgrade()
        store.database.close()
        yield url


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """Contents of the database."""
    found = Store.open(url)
    yield found
    found.database.close()


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    """Processes of a test, which end with it."""
    with ExitStack() as started:
        yield started


def begin(servers: ExitStack, kind: type[Server]) -> Server:
    """A server of the test's own; the test is skipped where that is not installed."""
    server = servers.enter_context(closing(kind()))
    try:
        server.start()
    except NoServer as error:
        pytest.skip(str(error))
    return server
