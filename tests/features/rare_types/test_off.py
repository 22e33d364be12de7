"""The feature while it is off."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from heatlite.core.config import Settings
from heatlite.core.errors import EntityNotFound, StackValidationFailed
from heatlite.core.status import state
from heatlite.feature import finders, registry
from heatlite.features.rare_types.rules import RULES
from heatlite.features.rare_types.tables import FINDERS, OLD_NAMES, TYPES
from heatlite.wiring import installed_types, rules
from tests.engine.conftest import place, resource, template  # noqa: F401 - `place` is a fixture
from tests.types.conftest import Cloudy

OFF = ("simulator",)
SAYS = "The Resource Type (OS::Designate::Zone) could not be found. Features that are off here: "
UNKNOWN = re.escape(SAYS) + ".*rare_types"
ZONE = resource("OS::Designate::Zone", name="a.org.", email="a@a.org")


@pytest.fixture
def cloudy(place: Path) -> Iterator[Cloudy]:  # noqa: F811 - the fixture
    one = Cloudy(place)
    yield one
    one.close()


@pytest.fixture
def switch(cloudy: Cloudy) -> Callable[[tuple[str, ...] | None], None]:
    """Function that starts the engine anew with these features."""

    def begin(features: tuple[str, ...] | None) -> None:
        cloudy.end()
        cloudy.settings = replace(cloudy.settings, features=features)
        cloudy.open()

    return begin


def test_the_tables_are_those_of_features_that_are_on() -> None:
    on, off = (Settings(database="", features=features) for features in (("rare_types",), ()))
    assert TYPES.keys() <= {*registry(on).names()}
    assert not TYPES.keys() & {*registry(off).names()}
    assert FINDERS.keys() <= finders(on).keys()
    assert not FINDERS.keys() & finders(off).keys()
    assert RULES.keys() <= rules(on).keys()
    assert not RULES.keys() & rules(off).keys()
    assert {rule.partition(":")[2] for rule in RULES} <= TYPES.keys()
    mapped = installed_types(on).installation.resource_registry
    assert OLD_NAMES.items() <= mapped.items()
    assert not OLD_NAMES.keys() & installed_types(off).installation.resource_registry.keys()


def test_a_template_with_a_type_is_refused(
    cloudy: Cloudy, switch: Callable[[tuple[str, ...] | None], None]
) -> None:
    switch(OFF)
    with pytest.raises(StackValidationFailed, match=UNKNOWN):
        cloudy.create(template(zone=ZONE))
    with pytest.raises(EntityNotFound, match=UNKNOWN):
        cloudy.components.types.describe("OS::Designate::Zone")


@pytest.mark.slow
def test_a_stack_with_a_type_is_shown_and_says_why_it_cannot_be_changed(
    cloudy: Cloudy, switch: Callable[[tuple[str, ...] | None], None]
) -> None:
    definition = template(zone=ZONE, other=resource("OS::Heat::Value", value="v"))
    definition["outputs"] = {"value": {"value": {"get_attr": ["other", "value"]}}}
    stack = cloudy.create(definition)
    full = cloudy.census()
    switch(OFF)
    assert cloudy.get(stack).name == "s"
    assert {row.name: row.type for row in cloudy.rows(stack)} == {
        "other": "OS::Heat::Value",
        "zone": "OS::Designate::Zone",
    }
    assert cloudy.outputs(stack) == {"value": "v"}
    keeps = replace(cloudy.row(stack, "zone"), data={"key": "a secret"})
    made = cloudy.components.reader.resources_of(cloudy.get(stack)).make(keeps)
    assert made.secrets() == ["a secret"], "readers see none of it elsewhere"
    with pytest.raises(StackValidationFailed, match=UNKNOWN):
        cloudy.put(stack, template(zone=ZONE))
    for change in (cloudy.patch, partial(cloudy.put, template=template()), cloudy.delete):
        changed = change(stack)
        assert changed.status == "FAILED"
        assert SAYS in changed.status_reason
    assert SAYS in cloudy.row(stack, "zone").status_reason
    assert cloudy.census() == full
    switch(None)
    stack = cloudy.delete(stack)
    assert state(stack.verb, stack.status) == "DELETE_COMPLETE", cloudy.why(stack)


@pytest.mark.slow
def test_a_stack_of_other_types_imports_none(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(
        "heat_template_version: 2021-04-16\nresources: {a: {type: OS::Heat::RandomString}}\n"
    )
    code = (
        "import sys; from heatlite.__main__ import main;"
        "code = main(['up', '--yes', 't.yaml', '-n', 's']);"
        "print(code, sorted(name for name in sys.modules if name.startswith('heatlite.features.rare_types.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == (
        "0 ['heatlite.features.rare_types.feature', 'heatlite.features.rare_types.rules',"
        " 'heatlite.features.rare_types.tables']"
    ), done.stdout + done.stderr
