"""The example package stands for a cloud; its folder is put on the path, for child processes too."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLE = str(Path(__file__).parents[1] / "example_plugin")


@pytest.fixture(autouse=True)
def example_plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(EXAMPLE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([EXAMPLE, *sys.path]))
    yield
