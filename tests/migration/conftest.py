import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("migration_behaviour")


@pytest.fixture
def empty_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/heatlite.db"
