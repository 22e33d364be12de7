"""Limits of time, and of memory in a subprocess, for hostile templates."""

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from heatlite.core.errors import HeatliteError
from heatlite.template.checks.check import check
from heatlite.template.environment import Environment
from heatlite.template.source.loader import load_template
from tests.fuzz.targets import FILES, PSEUDO, TYPES
from tests.fuzz.worst import WORST
from tests.tables import few, sampled

SIZE = 64 * 1024
"""An eighth of Heat's limit, so that all tests stay fast."""
SECONDS = 2.0
"""Processor time. ``-m tests.fuzz.test_worst`` measures 512 KiB."""
MEGABYTES = 1000
HUNGRY = ("one list", "repeat of a long text", "str_replace that grows")

ROOT = Path(__file__).parents[2]


def answer(text: str) -> str:
    """Return the error or the first problem of a template."""
    try:
        problems = check(load_template(text), Environment(), TYPES, FILES, PSEUDO)
    except HeatliteError as error:
        return error.message
    return problems[0].text if problems else ""


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(WORST, 8, pytest.mark.thorough))
def test_worst(name: str) -> None:
    text = WORST[name](SIZE)
    start = time.thread_time()
    answer(text)
    assert time.thread_time() - start < SECONDS


@pytest.mark.parametrize(
    ("text", "told"),
    few(
        [
            (
                "{repeat: {for_each: {A: &a [" + "x," * 300 + "], B: *a}, template: [" + "A," * 1000 + "]}}",
                "too much data",
            ),
            (
                "{str_replace: {template: "
                + "k" * 999999
                + ", params: {"
                + "".join(f"k{n}: v," for n in range(999))
                + "}}}",
                "too much data",
            ),
            ("[" + "{get_param: p}," * 9999 + "]", "too much data"),
        ]
    ),
)
def test_what_grows_is_refused(text: str, told: str) -> None:
    head = "heat_template_version: 2021-04-16\nparameters: {p: {type: json, default: [" + "1," * 2000 + "]}}\n"
    assert told in answer(f"{head}outputs: {{o: {{value: {text}}}}}\n")


@pytest.mark.slow
def test_memory() -> None:
    used = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.test_worst", *HUNGRY], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert int(used.stdout.rpartition(" ")[2]) < MEGABYTES


def main() -> None:
    """Print slow cases at 512 KiB, and the peak memory in MB."""
    for name in sys.argv[1:] or WORST:
        text = WORST[name](512 * 1024)
        start = time.thread_time()
        told = answer(text)
        seconds = time.thread_time() - start
        if seconds > 0.5:
            print(f"{seconds:6.2f} s  {name}: {told[:80]}")
    print("MB:", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


if __name__ == "__main__":
    main()
