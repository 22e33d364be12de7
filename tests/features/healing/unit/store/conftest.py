from collections.abc import Iterator
from pathlib import Path

import pytest

from heatlite.store.store import Store
from tests.databases import sqlite
from tests.unit.store.limit_behaviour import api  # noqa: F401


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(sqlite(tmp_path))
    yield store
    store.close()
