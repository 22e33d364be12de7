import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from heatlite.store.store import Store

# The same tests run on SQLite here and on servers in tests/services.
sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("store_behaviour", "sealing_behaviour")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/heatlite.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = Store.open(url)
    store.upgrade()
    yield store
    store.close()
