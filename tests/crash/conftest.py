"""Put the example package and the failing types on the path, also for children.

The example package stands for a cloud.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.copies import place, prepared  # noqa: F401 - fixtures

TYPES = [str(Path(__file__).parents[1] / "example_plugin"), str(Path(__file__).parent / "types")]


@pytest.fixture(autouse=True)
def example_plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for folder in TYPES:
        monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    yield
