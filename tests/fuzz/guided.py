"""Run a target under atheris, with our seeds and words."""

import sys
from importlib import import_module
from pathlib import Path

import atheris

FOLDER = Path(__file__).parent
FIXED = ("-timeout=5", "-rss_limit_mb=1024", "-max_len=16384")
"""Limits of time (seconds) and memory. Later arguments override them."""


def run(name: str) -> None:
    """Fuzz the target called `name` until something is found or the time is over."""
    with atheris.instrument_imports(include=["heatlite.template", "heatlite.plugin"]):
        targets = import_module("tests.fuzz.targets")
    words = f"-dict={FOLDER / 'words.dict'}"
    atheris.Setup(
        [sys.argv[0], *FIXED, words, *sys.argv[1:], str(FOLDER / "seeds" / name)],
        targets.TARGETS[name],
    )
    atheris.Fuzz()
