import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from heatlite.store.store import Store
from tests.databases import STORES, sqlite

# The same tests run on SQLite here and on servers in tests/services.
sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite(
    "store_behaviour", "sealing_behaviour", "growth_behaviour", "audit_behaviour",
    "software_behaviour", "limit_behaviour",
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/heatlite.db"


@pytest.fixture
def store(url: str, tmp_path: Path) -> Iterator[Store]:
    sqlite(tmp_path, "heatlite.db")
    store = Store.open(url, features=STORES)
    yield store
    store.close()
