"""Parts of objects: checks compare them, and converging updates repair them."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.clients.finders import FINDERS
from heatlite.core.json import Json
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.plugin import CloudResource
from heatlite.store.records import ResourceRecord
from tests.engine.conftest import ADMIN, resource
from tests.tables import few, sampled
from tests.types.conftest import Cloudy
from tests.types.marking import TYPES, templates
from tests.types.sample_values import values
from tests.types.standing import Standing
from tools.compared import NO_EFFECT, NOT_COMPARED, page


@pytest.mark.slow
@pytest.mark.parametrize("file", sampled(templates(), 2, pytest.mark.thorough))
def test_a_check_compares_each_property(tmp_path: Path, file: str) -> None:
    """Each that is given is among the live ones, or the page says why not."""
    one = Standing(tmp_path, file)
    resources = one.cloudy.components.reader.resources_of(one.marks.stack)
    told: dict[tuple[str, str], set[bool]] = {}
    for row in one.cloudy.rows(one.marks.stack):
        made, schema = resources.make(row), TYPES.get(row.type).schema
        if isinstance(made, CloudResource) and made.has("live_properties"):
            for name, field in schema.fields.items():
                if not (field.secret or field.hidden or field.doc.startswith(NO_EFFECT)):
                    told.setdefault((row.type, name), set()).add(_is_told(one.cloudy, resources, row, name))
    one.ends.close()
    assert {key for key, answers in told.items() if True not in answers} <= NOT_COMPARED.keys()


def _is_told(cloudy: Cloudy, resources: ResourceFactory, row: ResourceRecord, name: str) -> bool:
    """Return True if a check compares a property, or would if it were given."""
    made: Any = resources.make(row)
    field, given = made.schema.fields[name], row.properties
    if field.api in made.fetched:
        return True
    if given.get(name) is None:
        if name in made.schema.updatable | made.puts_back:
            return True  # tests that put it back give it
        sample = next(iter(values(field, lambda finder: _ids(cloudy, finder))), None)
        made = resources.make(replace(row, properties={**given, name: sample}))
    with suppress(Exception):
        return name in made.live_properties()
    return False


def _ids(cloudy: Cloudy, finder: str) -> list[Json]:
    """Return the ids of the objects that a finder finds."""
    known = FINDERS.get(finder)
    return [] if known is None else [str(one["id"]) for one in cloudy.view().things(known.verb.replace("find_", ""))]


def test_the_page_is_up_to_date() -> None:
    """Written by ``python -m tools.compared > docs/reference/compared.md``."""
    assert (Path(__file__).parents[2] / "docs/reference/compared.md").read_text() == page()


PARTS: dict[str, tuple[Any, str, Any]] = {
    "specs of QoS": (resource("OS::Cinder::QoSSpecs", name="n", specs={"a": "1"}), "specs", {"a": "2", "b": "1"}),
    "specs of a volume type": (
        resource("OS::Cinder::VolumeType", name="n", metadata={"a": "1"}), "extra_specs", {"b": "1"},
    ),
    "specs of a flavor": (
        resource("OS::Nova::Flavor", name="n", ram=64, vcpus=1, extra_specs={"a": 1}), "extra_specs", {},
    ),
    "access to a flavor": (
        resource("OS::Nova::Flavor", name="n", ram=64, vcpus=1, is_public=False, tenants=["demo"]), "_access", [],
    ),
    "hosts of an aggregate": (
        resource("OS::Nova::HostAggregate", name="n", hosts=["fake-1"]), "hosts", ["fake-2"],
    ),
    "metadata of an aggregate": (
        resource("OS::Nova::HostAggregate", name="n", metadata={"a": "1"}), "metadata", {"a": "1", "b": "2"},
    ),
    "tags of a network": (resource("OS::Neutron::Net", tags=["a", "b"]), "tags", ["b", "c"]),
}  # fmt: skip
"""A resource, the attribute of its object that has the part, and another value."""


@pytest.mark.parametrize("part", few(PARTS))
def test_a_check_names_the_part_and_converge_repairs_it(cloudy: Cloudy, part: str) -> None:
    cloudy.who = ADMIN
    given, name, other = PARTS[part]
    stack = cloudy.made({"it": given})
    wanted = cloudy.thing(stack, "it")[name]
    kind: Any = TYPES.get(given["type"])
    for drifted in (wanted, other):
        cloudy.admin.put(kind.kind, {**cloudy.thing(stack, "it"), name: drifted})
        stack = cloudy.check(stack)
        assert stack.status == "COMPLETE", cloudy.why(stack)
        assert ("differs" in cloudy.row(stack, "it").status_reason) is (drifted != wanted)
    before = cloudy.ids(stack)
    stack = cloudy.patch(stack, converge=True)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert (cloudy.thing(stack, "it")[name], cloudy.ids(stack)) == (wanted, before)
