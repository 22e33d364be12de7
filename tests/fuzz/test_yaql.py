"""Random expressions of `yaql` end, stay small, and show no addresses."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.yaql_expressions import names

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_random_expressions(seed: int) -> None:
    tried = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.yaql_expressions", str(seed), "400"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert tried.stdout == "done\n", (tried.returncode, tried.stdout, tried.stderr[-300:])


def test_every_function_of_the_library_is_drawn() -> None:
    found = names()
    assert len(found) > 120
    assert {"len", "generateMany", "cycle", "flatten", "replaceBy", "thenBy"} <= {*found}
