"""Templates run no code, open no files or sockets, and use no slow parser."""

import subprocess
import sys
from pathlib import Path
from types import FrameType

import pytest

from heatlite.core.errors import HTTPBadRequest
from heatlite.template.source.loader import load
from tests.tables import table

ROOT = Path(__file__).parents[2]
SLOW = ("scanner.py", "parser.py", "composer.py", "reader.py")
"""Parts of PyYAML that are written in Python."""


@pytest.mark.slow
def test_nothing_is_opened_imported_or_run() -> None:
    """Audit events of a second run, when everything is loaded."""
    watched = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.watched"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert watched.stdout == ""


@table(
    "tag",
    [
        "!!python/object:os.system x", "!!python/object/apply:os.system [x]", "!!python/object/new:os.system [x]",
        "!!python/name:os.system", "!!python/module:os", "!!python/tuple [x]", "!!python/bytes x", "!!python/none x",
        "!!python/complex 1", "!!python/int 1", "!!python/str x", "!!python/dict {}", "!!binary aGk=", "!!omap []",
        "!!pairs []", "!!set {}", "!include file", "!env HOME", "!<tag:yaml.org,2002:python/name:os.system> x",
        "!Ref a", "!Sub x", "!GetAtt a.b",
    ],
)  # fmt: skip
@table("form", ["a: {}", "- {}", "? {}\n: b", "a: &b {}\nc: *b", "a: {{<<: {}}}"])
def test_no_tag_makes_anything(tag: str, form: str) -> None:
    with pytest.raises(HTTPBadRequest):
        load(form.format(tag))


def test_yaml_is_read_in_c() -> None:
    called: set[str] = set()

    def watch(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_name != "__init__":
            called.add(frame.f_code.co_filename)

    text = "heat_template_version: 2018-08-31\nresources:\n" + "  r: {type: T, n: [1, 2.5, yes, ~, 'x', &a y, *a]}\n"
    sys.setprofile(watch)
    try:
        source = load(text)
    finally:
        sys.setprofile(None)
    assert source.data["resources"] == {"r": {"type": "T", "n": [1, 2.5, True, None, "x", "y", "y"]}}
    assert called
    assert not [name for name in called if Path(name).parent.name == "yaml" and Path(name).name in SLOW]
