"""Laws of ways out: of the reasons of stacks, and of refusals."""

import re
import shlex
from functools import cache
from typing import Any

from heatlite.cli.main import build_parser, with_features
from heatlite.feature import installed

PLACEHOLDER = re.compile(r"[{}<>…]|\bNone\b")


@cache
def _parse() -> Any:
    return build_parser(with_features(installed())).parse_args


def is_complete(command: str) -> bool:
    """True for a command with real names, that our command line can read."""
    program, *words = shlex.split(command)
    if PLACEHOLDER.search(command) or program not in ("heatlite", "openstack"):
        return False
    if program == "heatlite":
        _parse()(words)
    return True


def says_effect(text: str) -> bool:
    """True for a text that a command is the subject of: ``waits for the end of …``."""
    return text.split()[0].endswith("s")


def check_conflict(error: Any) -> None:
    """Laws of the error of each answer with 409."""
    assert error["holder"].keys() == {"kind", "id", "by", "since"}, error
    assert error["holder"]["kind"] and (error["holder"]["id"] or error.get("others")), error
    assert error["way_out"], error
    for number, way in enumerate(error["way_out"]):
        assert way["text"] and way["after"] is None or 0 <= way["after"] < number, error
        assert (way["method"] is None) == (way["path"] is None), error
        assert way["command"] is None or is_complete(way["command"]), error
        assert way["command"] is None or says_effect(way["text"]), error
    commands = [way["command"] for way in error["way_out"] if way["command"] is not None]
    assert not commands or any(one in error["message"] for one in commands), error
