"""Every function of every dialect over every kind of unknown reference."""

from collections.abc import Sequence

import pytest

from heatlite.core.json import Json, JsonMap
from heatlite.plugin.registry import Registry
from heatlite.template.checks.check import check
from heatlite.template.definitions.definitions import referring
from heatlite.template.dialects import DIALECTS
from heatlite.template.document import Template
from heatlite.template.environment import Environment
from heatlite.template.expression import UNKNOWN, Failed, MapOf, fields, resolve, sift
from heatlite.template.functions.text import StrReplace
from tests.function_examples import CALLS, FILES, Known, bound, calls, document, put_in, references, right_calls
from tests.resource_types import ALL_TYPES
from tests.tables import table

LATEST = DIALECTS["heat_template_version.2021-04-16"]


FACADE: JsonMap = {"metadata": {}, "deletion_policy": "Delete", "update_policy": {}}


class Later(Known):
    """One is yet to come."""

    def reference(self, name: str) -> object:
        return UNKNOWN if name == "later" else super().reference(name)

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:
        return UNKNOWN if name == "later" else super().attribute(name, attribute, path)


def agrees(early: object, late: object) -> bool:
    """True if a value that is known in part is what it says."""
    if early is UNKNOWN:
        return True
    if isinstance(early, dict) and isinstance(late, dict):
        return early.keys() == late.keys() and all(agrees(early[key], late[key]) for key in early)
    if isinstance(early, list) and isinstance(late, list):
        return len(early) == len(late) and all(map(agrees, early, late))
    return type(early) is type(late) and early == late


@pytest.mark.parametrize("key", DIALECTS)
def test_what_is_not_known_yet_fails_nothing_and_changes_nothing(key: str) -> None:
    """The value with the reference known says which of the calls are right."""
    dialect = DIALECTS[key]
    right = list(right_calls(dialect, FACADE))
    hiding = bound(dialect, {str(number): one.call for number, one in enumerate(right)}, UNKNOWN, FACADE)
    values = fields(hiding.resources["x"].properties)
    assert values is not None
    wrong = []
    for number, one in enumerate(right):
        hiding.refill()
        failed: list[Failed] = []
        early = sift(values[str(number)], Later(), failed)
        if failed or not agrees(early, one.value):
            wrong.append((one, early, [str(error) for _, error in failed]))
        if resolve(values[str(number)], Later()) != early:
            wrong.append((one, early, ["differs"]))
    assert wrong == []
    assert {one.function for one in right} == {name for name, found in dialect.functions.items() if found.summary}
    every = bound(dialect, {str(number): one.call for number, one in enumerate(calls(dialect))}, "s3cret", FACADE)
    assert referring(every.resources["x"].properties)


@pytest.mark.parametrize("key", [key for key, dialect in DIALECTS.items() if dialect.conditions])
def test_conditions_over_what_is_not_known_yet(key: str) -> None:
    dialect = DIALECTS[key]
    section = dialect.sections["conditions"]
    made = document(dialect)
    for name in dialect.conditions:
        for kind, reference in references(dialect).items():
            for row in CALLS[name]:
                conditions = {**made[section], "c": {name: put_in(row, reference)}}  # type: ignore[dict-item]
                environment = Environment(parameters={"secret": UNKNOWN})  # type: ignore[dict-item]
                definition = Template({**made, section: conditions}).definition(environment, {})
                if kind == "hidden" and name in ("equals", "Fn::Equals"):
                    assert definition.findings.ordered() == [], row


def test_a_function_that_takes_the_unknown_for_data_makes_it_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StrReplace, "strict", False)
    call: Json = {"str_replace": {"template": "x-N", "params": {"N": {"get_resource": "later"}, "M": 1}}}
    value = fields(bound(LATEST, {"v": call}, "s3cret").resources["x"].properties)
    assert value is not None
    assert resolve(value["v"], Later()) is UNKNOWN
    monkeypatch.setattr(StrReplace, "value_text", lambda *_: 1 // 0)
    assert resolve(value["v"], Later()) is UNKNOWN
    with pytest.raises(ZeroDivisionError):
        resolve(value["v"], Known())
    assert referring(MapOf({"v": 1, "w": value["v"]})) == {"v": 1, "w": UNKNOWN}


TYPES = Registry(ALL_TYPES)
VALUE: tuple[str, JsonMap] = ("OS::Heat::Value", {})


@pytest.mark.slow
def test_types_that_look_for_implied_dependencies_take_every_value() -> None:
    """All properties of all resources have the same value."""
    views = {name: view for name in TYPES.names() if (view := TYPES.find(name)) is not None}
    implying = {name for name, view in views.items() if view.after}
    kinds = implying.union(*(views[name].after for name in implying))
    for name, function in LATEST.functions.items():
        for row in CALLS[name][:2] if function.summary else ():
            value = {name: put_in(row, {"get_resource": "later"})}
            resources = {kind: (kind, dict.fromkeys(views[kind].property_types(), value)) for kind in kinds}
            made = document(LATEST, known=VALUE, later=VALUE, **resources)
            assert Template(made).definition(Environment(), {}, False, TYPES).resources.keys() >= kinds, value


NICS: list[Json] = [{"network": {"get_resource": "later"}}]


@table(
    "networks",
    [
        NICS,
        {"list_concat": [NICS, [{"network": "other"}]]},
        {"list_concat_unique": [NICS, NICS]},
        {"filter": [[None], NICS]},
        {"yaql": {"expression": "$.data.where($.network != null)", "data": NICS}},
        {"repeat": {"template": {"network": "N"}, "for_each": {"N": [{"get_resource": "later"}]}}},
        [{"map_merge": [NICS[0], {"port_security": True}]}],
        [{"network": {"str_split": [",", {"list_join": [",", [{"get_resource": "later"}, "x"]]}, 0]}}],
    ],
)
def test_an_implied_dependency_is_seen_through_functions(networks: Json) -> None:
    """A server comes after the subnets of its networks."""
    made = document(
        LATEST,
        later=("OS::Neutron::Net", {}),
        subnet=("OS::Neutron::Subnet", {"network": {"get_resource": "later"}}),
        server=("OS::Nova::Server", {"networks": networks}),
    )
    definition = Template(made).definition(Environment(), {}, False, TYPES)
    assert definition.resources["server"].requires == {"later", "subnet"}


@pytest.mark.slow
def test_every_property_of_every_type_takes_a_reference_within_anything() -> None:
    """A check tells problems, and fails at none."""
    text: Json = {"str_replace": {"template": "x-N", "params": {"N": {"get_resource": "later"}}}}
    values: list[Json] = [text, [text], {"k": text}, [{"k": text}], {"get_attr": ["later", "show"]}]
    for kind in TYPES.names():
        view = TYPES.find(kind)
        assert view is not None
        odd: dict[str, tuple[str, JsonMap]] = {
            f"{name}{number}": (kind, {name: value})
            for name in view.property_types()
            for number, value in enumerate(values)
        }
        check(document(LATEST, known=VALUE, later=VALUE, **odd), Environment(), TYPES, FILES, strict=False)
