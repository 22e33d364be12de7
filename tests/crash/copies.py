"""Prepared databases, a copy for each kill."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.runtime.extras import MissingLibrary
from heatlite.store.database.backend import Dialect
from heatlite.store.database.database import Database
from tests.crash.victim import SURVIVED
from tests.databases import MEMORY, SERVERS, sqlite
from tests.processes import fresh

MAX_COMMITS = 80


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder of the database and of the objects."""
    with tempfile.TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("EXAMPLE_FILES", str(Path(folder) / "now" / "files"))
        yield Path(folder)


@pytest.fixture
def prepared(place: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Yield a function that replaces the last copy of a prepared database.

    It returns the URL of the new copy, on PostgreSQL. The parameter makes the first one.
    """
    found, name = SERVERS[Dialect.POSTGRESQL], f"heatlite_crash_{os.getpid()}"
    with ExitStack() as ends:
        try:
            template_url = ends.enter_context(found.database(f"{name}_prepared"))
        except (DatabaseUnavailable, MissingLibrary) as error:
            pytest.skip(f"no PostgreSQL to test with ({found.variable} names one): {error}")
        admin = Database(os.environ.get(found.variable, found.loopback))
        ends.callback(admin.close)
        drop = partial(admin.peewee.execute_sql, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        ends.callback(drop)
        files = place / "now" / "files"
        files.mkdir(parents=True)
        begun(request.param, template_url, str(files)).join(240)
        shutil.copytree(place / "now", place / "prepared")

        def copy() -> str:
            drop()
            admin.peewee.execute_sql(f"CREATE DATABASE {name} TEMPLATE {name}_prepared")
            shutil.rmtree(place / "now")
            shutil.copytree(place / "prepared", place / "now")
            return template_url.removesuffix("_prepared")

        yield copy


def begun(target: Callable[..., None], *arguments: object) -> Any:
    module = (target.func if isinstance(target, partial) else target).__module__
    process = fresh(module).Process(target=target, args=arguments)
    process.start()
    return process


def copier(place: Path) -> Callable[[], str]:
    """Return a function that puts back a SQLite database and its objects.

    It returns the URL, as `prepared` does on PostgreSQL. What is there now is what it puts back.
    """
    shutil.copytree(place / "now", place / "prepared")

    def copy() -> str:
        shutil.rmtree(place / "now")
        shutil.copytree(place / "prepared", place / "now")
        return sqlite(place / "now")

    return copy


def kill_at_commits(
    copy: Callable[[], str],
    victim: Callable[[str, str, int, float], None],
    recover: Callable[[str, str, float], object],
    files: Path,
    least: int,
    commits: Iterable[int] = range(1, MAX_COMMITS),
    lease: float = 1e9,
) -> None:
    """Kill a victim at each of some commits, each on a copy, and recover.

    `recover` has another engine take over. It takes the URL, what to say of a failure, and the lease. Ends with a
    victim that survives, after more than `least` commits.
    """
    for commit in commits:
        database, where = copy(), f"commit {commit}"
        process = begun(victim, database, str(files), commit, lease)
        process.join(240)
        assert process.exitcode in (-9, SURVIVED), f"{where}: exit code {process.exitcode}"
        recover(database, where, lease)
        if process.exitcode == SURVIVED:
            assert commit > least, "it has done less than it should"
            return
    pytest.fail("the victim dies for ever")
