"""Parts of objects: checks compare them, and converging updates repair them."""

from pathlib import Path
from typing import Any

import pytest

from heatlite.plugin import CloudResource
from tests.engine.conftest import ADMIN, resource
from tests.tables import few, sampled
from tests.types.conftest import Cloudy
from tests.types.marking import TYPES, templates
from tests.types.standing import Standing
from tools.compared import NOT_COMPARED, page


@pytest.mark.slow
@pytest.mark.parametrize("file", sampled(templates(), 2, pytest.mark.thorough))
def test_a_check_compares_what_an_update_changes(tmp_path: Path, file: str) -> None:
    one = Standing(tmp_path, file)
    resources = one.cloudy.components.reader.resources_of(one.marks.stack)
    unseen = set()
    for row in one.cloudy.rows(one.marks.stack):
        kind = TYPES.get(row.type)
        live = resources.make(row).live_properties() if issubclass(kind, CloudResource) else None
        for name in kind.schema.updatable if live is not None else ():
            if row.properties.get(name) is not None and not kind.schema.fields[name].secret and name not in live:
                unseen.add((row.type, name))
    one.ends.close()
    assert unseen <= NOT_COMPARED.keys()


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
