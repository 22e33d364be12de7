"""No table of a database server has values of hidden parameters in clear."""

from collections.abc import Iterator

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.store.secrets.cipher import new_key
from tests.api.conftest import Heat
from tests.api.secret_history import History, found_in
from tests.databases import dump


@pytest.fixture
def engine(url: str) -> Iterator[wiring.Embedded]:
    engine = wiring.embedded(Settings(database=url, encryption_keys=(new_key(),)))
    yield engine
    engine.close()


def test_nothing_hidden_lies_in_a_table(engine: wiring.Embedded) -> None:
    heat = Heat(engine.app)
    path = History(heat).live()
    tables = dump(engine.store)
    assert {table: found for table, rows in tables.items() if (found := found_in("\n".join(rows)))} == {}
    assert {table for table, rows in tables.items() if "fernet1:" in "\n".join(rows)} >= {
        "stack", "resource", "template", "software_config", "software_deployment",
    }  # fmt: skip
    heat.call("DELETE", path, code=204)
    heat.settle(path, "DELETE_COMPLETE")
