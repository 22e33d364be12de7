"""Seeds and findings of the fuzzer: every file runs through its target."""

from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS

SEEDS = sorted((Path(__file__).parent / "seeds").glob("*/*"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
@pytest.mark.parametrize("seed", SEEDS, ids=[f"{seed.parent.name}/{seed.stem}" for seed in SEEDS])
def test_seed(seed: Path) -> None:
    TARGETS[seed.parent.name](seed.read_bytes())


def test_every_target_has_seeds() -> None:
    assert {seed.parent.name for seed in SEEDS} == set(TARGETS)
