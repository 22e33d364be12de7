"""The manual page and the completions that packages install."""

import argparse
import re
import shlex
from configparser import ConfigParser
from pathlib import Path

from tests.commands import every_command
from tools.manual import page

ROOT = Path(__file__).parents[3]
HEADING = re.compile(r'^\.SS "heatlite ([^"]+)"$', re.MULTILINE)


def test_the_page_describes_each_command() -> None:
    described = HEADING.findall(page())
    assert {"up", "ls", "action list", "node playbook run", "config show"} <= set(described)
    assert len(described) == len(set(described)) > 40
    assert "action-lock" not in described  # an alias


def test_any_groff_reads_the_page() -> None:
    """Plain ``groff -man`` reads Latin 1: other characters are its escapes."""
    assert page().isascii()
    assert (ROOT / "docs/man/heatlite.1").read_bytes().isascii()
    assert "STACK_UPDATE \\[u2026] (repeatable" in page()


def test_options_name_their_values() -> None:
    text = page()
    options = (r"\-n, \-\-name NAME", r"\-f, \-\-format {text,json}", r"\-\-watch [SECONDS]", r"\-y, \-\-yes")
    for shown in (*options, "{bash,zsh,fish}"):
        assert f"\n.B {shown}\n" in text, shown


def test_each_argument_is_explained() -> None:
    def silent(parser: argparse.ArgumentParser) -> list[str]:
        found = []
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                found += [name for child in action.choices.values() for name in silent(child)]
            elif not action.help:
                found.append(f"{parser.prog}: {action.dest}")
        return found

    assert silent(every_command()) == []


def test_the_installed_page_names_commands_that_are_there() -> None:
    """Written by ``python -m tools.manual > docs/man/heatlite.1``."""
    there = set(HEADING.findall(page()))
    installed = HEADING.findall((ROOT / "docs/man/heatlite.1").read_text())
    assert [name for name in installed if name not in there] == []
    assert installed


def test_packages_have_the_page_and_completions() -> None:
    settings = ConfigParser()
    settings.read(ROOT / "setup.cfg")
    files = [file for files in settings["options.data_files"].values() for file in shlex.split(files)]
    assert len(files) == 4 and all((ROOT / file).is_file() for file in files)
    assert every_command().prog in files[1]
