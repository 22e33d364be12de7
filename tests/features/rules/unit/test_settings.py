"""Rules of the operator, in the settings."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import UNSET, convert

from heatlite.core.config import BadSetting, Settings, load
from heatlite.core.errors import HTTPBadRequest
from heatlite.feature import installed
from heatlite.features.change_policy.checks import faults_of
from heatlite.features.change_policy.document import ProjectDocument, rules_of
from heatlite.features.change_policy.effective import Occasion, operators
from heatlite.features.rules import expressions
from tests.tables import table

RULES = """\
- name: at-night
  for: plan
  on: [create, scale]
  when: >-
    now.getHours("Europe/Vienna") < 6
    && plan.counts.create > 0
  then: warn
  message: it is night
- {name: never, for: resource, when: resource.protected, then: deny, message: m}
"""


def loaded(folder: Path, rules: str, more: str = "") -> Settings:
    file = folder / "heatlite.toml"
    file.write_text(f"{more}[change_policy]\nrules = '''\n{rules}'''\n")
    return load(installed, file=file, environ={})


def test_they_are_a_text_in_yaml(tmp_path: Path) -> None:
    first, second = rules_of(operators(loaded(tmp_path, RULES)))
    assert (first.name, first.on, first.on_error) == ("at-night", (Occasion.CREATE, Occasion.SCALE), UNSET)
    assert first.when == 'now.getHours("Europe/Vienna") < 6 && plan.counts.create > 0'
    assert (second.name, second.then) == ("never", "deny")


@table(
    ("rules", "fault"),
    [
        (RULES.replace("counts", "count"), "rules[0].when (at-night): line 1, column 48: undeclared reference"),
        (RULES.replace("at-night", "never"), "there are several with the name never"),
        (RULES.replace("then: warn", "then: maybe"), "maybe"),
        (RULES + "- {\n", "[change_policy]"),
        ("just a text", "[change_policy]"),
    ],
)
def test_wrong_ones_start_no_server(rules: str, fault: str, tmp_path: Path) -> None:
    """B5."""
    with pytest.raises(BadSetting, match=re.escape(fault)):
        loaded(tmp_path, rules)


def test_they_need_the_feature(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="the feature rules is off"):
        loaded(tmp_path, RULES, 'features = ["change_policy"]\n')


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Python without cel-expr-python."""

    def forget() -> None:
        expressions._compiled.cache_clear()
        expressions._environment.cache_clear()

    forget()
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    yield
    monkeypatch.undo()
    forget()


@pytest.mark.usefixtures("without_library")
def test_without_the_extra(tmp_path: Path) -> None:
    """They are refused; those that are stored cannot be evaluated."""
    with pytest.raises(BadSetting, match=r"A rule needs cel_expr_python, which is not installed: .*\[rules\]"):
        loaded(tmp_path, RULES)
    rule = {"name": "r", "for": "plan", "when": "true", "then": "deny", "message": "m"}
    document = convert({"change_policy": "2026-11-28", "rules": [rule]}, ProjectDocument)
    with pytest.raises(HTTPBadRequest, match="which is not installed"):
        faults_of(Settings(database="sqlite://"), document)
    from tests.features.rules.unit.test_expressions import bound

    assert "not installed" in str(bound(None).result("true"))
