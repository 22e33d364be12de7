"""Rules about several properties, when some of these are not known yet.

From an example of each type, one property after the other is left out or gets other values, while another one stands
for what an action will bring. The answer must be that of all values that this one may have: a fault of each of them is
told, and no other.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations
from typing import Any

import pytest
import yaml

from heatlite.core.errors import StackValidationFailed
from heatlite.engine.state.requests import StackRequest
from heatlite.plugin import Schema
from heatlite.plugin.coercion import PropertyKind
from heatlite.plugin.schema import Field
from heatlite.template.checks.check import check
from heatlite.template.environment import Environment
from heatlite.template.expression import UNKNOWN
from heatlite.template.types import Fault
from tests.engine.conftest import ref, resource, template
from tests.resource_types import ALL_TYPES
from tests.tables import sampled, table
from tests.types.conftest import Cloudy
from tests.types.marking import EXAMPLES, TYPES

ABSENT = object()
TEXTS = (
    *("vda", "TCP:80", "10.0.0.0/24", "10.0.0.9", "PT1M", "00:16:3e:00:00:01", "2031-01-01T00:00:00Z", "* * * * *"),
    *("example.org.", "/dev/vdc", "UTC", "2031-01-01 00:00", "c7bd0f0e-0f5a-4c4c-8f4b-3a2f5b6c7d8e", "1-2", "{}"),
)
"""Texts of which each property accepts one."""
NUMBERS = (1, 300, 4)
NOT_SOUGHT = {("OS::Nova::Server", "boot_index")}
"""Properties without which a fault could be told, but is told once they are known."""
Step = str | int
Path = tuple[Step, ...]


def samples(field: Field) -> list[object]:
    """Return values that the property may have, each fine by itself."""
    allowed = [constraint.describe().get("allowed_values") for constraint in field.constraints]
    listed = next((one for one in allowed if isinstance(one, list)), None)
    found: list[object]
    if field.schema is not None:
        found = maps(field.schema)
    elif field.kind is PropertyKind.LIST:
        one = list(listed or []) or (samples(field.item) if field.item is not None else ["vda"])
        found = [one[:1], one[:1] * 2, []]
    else:
        found = {
            PropertyKind.BOOLEAN: [True, False],
            PropertyKind.MAP: [{"task_name": "vda"}, {}],
            PropertyKind.INTEGER: [*NUMBERS],
            PropertyKind.NUMBER: [*NUMBERS],
            PropertyKind.STRING: [*TEXTS],
            PropertyKind.ANY: ["vda", 1],
        }[field.kind]
        found = [*(listed or []), *found]
    return [value for value in found if is_fine(field, value)][:3]


def is_fine(field: Field, value: object) -> bool:
    faults: list[Fault] = []
    taken = field.take(value, (), faults)
    field.judge(taken, (), faults)
    return not faults


@cache
def maps(schema: type[Schema]) -> list[object]:
    """Return maps that the schema accepts, most with one property more than needed."""
    needed = {name: samples(field)[0] for name, field in schema.fields.items() if field.required}
    shown = {name: field for name, field in schema.fields.items() if not field.means and not field.hidden}
    single = [{**needed, name: value} for name, field in shown.items() for value in samples(field)[:2]]
    found = [needed, *single, *({**one, **two} for one, two in combinations(single, 2))]
    return [one for one in found[:500] if schema.check(one) == []]


def least(schema: type[Schema]) -> dict[str, object]:
    """Return a short map that the schema accepts, but for its rules."""
    return {name: samples(field)[0] for name, field in schema.fields.items() if field.required}


def literal(field: Field | None, value: object) -> object:
    """Return a value of an example without references and functions."""
    if isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in FUNCTIONS:
        return samples(field)[0] if field is not None else "vda"
    if field is not None and field.schema is not None and isinstance(value, Mapping):
        return {key: literal(field.schema.fields.get(key), one) for key, one in value.items()}
    if field is not None and isinstance(value, list):
        return [literal(field.item, one) for one in value]
    return value


FUNCTIONS = ("get_resource", "get_attr", "get_param", "str_replace", "list_join", "get_file")


@cache
def given() -> Mapping[str, list[dict[str, Any]]]:
    """Return properties of each type: of the examples, and the least that it accepts."""
    found: dict[str, list[dict[str, Any]]] = {name: [least(TYPES.get(name).schema)] for name in ALL_TYPES}
    written = [yaml.safe_load(path.read_text())["resources"].values() for path in EXAMPLES]
    for one in (one for resources in written for one in resources):
        schema = TYPES.get(one["type"]).schema
        values = {key: literal(schema.fields.get(key), value) for key, value in one.get("properties", {}).items()}
        found[one["type"]].append(values)
    return found


def places(schema: type[Schema], values: Mapping[str, object]) -> Iterator[tuple[Path, Field]]:
    """Yield the places of all properties, also of maps with known keys."""
    for name, field in schema.fields.items():
        if field.means or field.hidden:
            continue
        yield (name,), field
        value = values.get(name)
        if field.schema is not None and isinstance(value, Mapping):
            yield from (((name, *path), inner) for path, inner in places(field.schema, value))
        if field.item is not None and field.item.schema is not None and isinstance(value, list):
            for index, element in enumerate(value[:2]):
                yield from (((name, index, *path), inner) for path, inner in places(field.item.schema, element))


def put(values: Any, path: Path, value: object) -> Any:
    """Return the properties with another value at a place."""
    step, *rest = path
    found = values.copy()
    if rest:
        found[step] = put(values[step], tuple(rest), value)
    elif value is ABSENT:
        found.pop(step, None)
    else:
        found[step] = value
    return found


def faults(kind: str, values: Mapping[str, object]) -> frozenset[tuple[Path, str]]:
    """Return places and beginnings of the faults: some end with what was given."""
    return frozenset((fault.path, fault.text[:32]) for fault in TYPES.get(kind).check_properties(values))


def options(field: Field) -> list[object]:
    return samples(field) + ([] if field.required else [ABSENT])


def wrong(kind: str) -> Iterator[str]:
    schema = TYPES.get(kind).schema
    for base in given()[kind]:
        known = list(places(schema, base))
        for changed, field in known:
            for value in options(field):
                variant = put(base, changed, value)
                for open_, other in known:
                    if open_[: len(changed)] == changed or changed[: len(open_)] == open_:
                        continue
                    told = faults(kind, put(variant, open_, UNKNOWN))
                    sure: frozenset[tuple[Path, str]] | None = None
                    for one in options(other):
                        answer = faults(kind, put(variant, open_, one))
                        sure = answer if sure is None else sure & answer
                        if not told and not sure:
                            break
                    if told != sure and (kind, open_[-1]) not in NOT_SOUGHT or not told <= (sure or set()):
                        yield f"{changed}={value!r}, {open_} unknown of {base}: told {set(told)}, should {sure}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", sampled(sorted(ALL_TYPES), 9, pytest.mark.thorough))
def test_a_rule_holds_as_soon_as_the_properties_that_it_reads_are_known(kind: str) -> None:
    assert next(wrong(kind), None) is None


def net() -> dict[str, object]:
    return {
        "net": resource("OS::Neutron::Net"),
        "sub": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.9.0.0/24"),
    }


NETWORK = [{"network": ref("net")}]
BROKEN: Mapping[str, tuple[dict[str, Any], str]] = {
    "no boot": (resource("OS::Nova::Server", flavor="m1.nano", networks=NETWORK), "Neither image nor a disk"),
    "no cidr": (resource("OS::Neutron::Subnet", network=ref("net")), "Either cidr or subnetpool"),
    "allocated": (
        resource(
            "OS::Nova::Server", flavor="m1.nano", image="cirros", networks=[*NETWORK, {"allocate_network": "auto"}]
        ),
        "allocate_network cannot be given beside",
    ),
    "no size": (resource("OS::Cinder::Volume", name=ref("net")), "size is needed"),
    "two remotes": (
        resource(
            "OS::Neutron::SecurityGroupRule",
            security_group=ref("net"),
            remote_group="default",
            remote_ip_prefix="10.0.0.0/8",
        ),
        "Cannot use remote_group and remote_ip_prefix",
    ),
}


@table("name", BROKEN)
def test_validation_tells_a_broken_rule_beside_a_reference(name: str) -> None:
    broken, text = BROKEN[name]
    found = check(template(**net(), r=broken), Environment(), TYPES)
    assert [problem.text for problem in found if text in problem.text], found


@pytest.mark.slow
def test_a_broken_rule_beside_a_reference_is_refused_before_anything_is_done(cloudy: Cloudy) -> None:
    empty = cloudy.census()
    for number, (broken, text) in enumerate(BROKEN.values()):
        with pytest.raises(StackValidationFailed, match=text):
            cloudy.create(template(**net(), r=broken), f"s{number}")
    assert cloudy.census() == empty
    whole = template(**net(), s=resource("OS::Nova::Server", flavor="m1.nano", image="cirros", networks=NETWORK))
    stack = cloudy.create(whole)
    made = cloudy.census()
    wrong = template(**net(), s=BROKEN["no boot"][0])
    with pytest.raises(StackValidationFailed, match="Neither image"):
        cloudy.put(stack, wrong)
    with pytest.raises(StackValidationFailed, match="Neither image"):
        cloudy.stacks.preview_update(cloudy.who, stack, StackRequest(template=wrong), existing=False)
    assert cloudy.census() == made


CHOOSING = """
heat_template_version: 2021-04-16
parameters: {x: {type: string}}
conditions:
  port: {equals: [{get_param: x}, p]}
  net: {not: port}
  bare: {equals: [{get_param: x}, q]}
resources:
  s:
    type: OS::Nova::Server
    properties:
      flavor: m1.nano
      image: {if: [bare, null, cirros]}
      networks: [{port: {if: [port, p, null]}, network: {if: [net, n, null]}, fixed_ip: {if: [net, 10.0.0.1, null]}}]
"""
GROUP = """
heat_template_version: 2021-04-16
parameters: {x: {type: string}}
conditions: {bare: {equals: [{get_param: x}, q]}}
resources:
  g:
    type: OS::Heat::ResourceGroup
    properties:
      resource_def: {type: OS::Nova::Server, properties: {flavor: m1.nano, image: {if: [bare, null, cirros]}}}
"""


@table("nested", [CHOOSING, GROUP])
@table("given, faults", [(ref("a"), 0), ("p", 0), ("q", 1)])
def test_values_under_a_condition_that_is_not_known_yet_break_no_rule_together(
    nested: str, given: object, faults: int
) -> None:
    """All such conditions count as true, though they may exclude each other."""
    above = template(a=resource("OS::Heat::RandomString"), b=resource("nested.yaml", x=given))
    found = check(above, Environment(), TYPES, files={"nested.yaml": nested})
    assert len(found) == faults, found


def test_rules_see_no_property_of_a_section_under_such_a_condition() -> None:
    nested = CHOOSING[: CHOOSING.index("    properties")] + (
        "    properties: {if: [net, {flavor: m1.nano}, {flavor: m1.nano, image: cirros}]}\n"
    )
    for given, faults in ((ref("a"), 0), ("p", 0), ("q", 1)):
        above = template(a=resource("OS::Heat::RandomString"), b=resource("nested.yaml", x=given))
        assert len(check(above, Environment(), TYPES, files={"nested.yaml": nested})) == faults
