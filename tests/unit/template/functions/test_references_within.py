"""Every function of every dialect over every kind of unknown reference."""

from collections.abc import Sequence

import pytest

from heatlite.core.errors import HeatliteError
from heatlite.core.json import Json, JsonMap
from heatlite.plugin.registry import Registry
from heatlite.resources import BUILTIN
from heatlite.template.definitions.definitions import referring
from heatlite.template.dialects import DIALECTS, Dialect
from heatlite.template.document import Definition, Template
from heatlite.template.environment import Environment
from heatlite.template.expression import UNKNOWN, Failed, fields, resolve, sift
from heatlite.template.functions.text import StrReplace
from tests.function_examples import CALLS, calls, put_in, references
from tests.tables import table

LATEST = DIALECTS["heat_template_version.2021-04-16"]


def document(dialect: Dialect, values: JsonMap) -> JsonMap:
    parameters: JsonMap = {
        "text": {"type": "string", "default": "abc"},
        "map": {"type": "json", "default": {"k": "v"}},
        "secret": {"type": "string", "hidden": True},
    }
    resources: JsonMap = {"known": {"type": "T"}, "later": {"type": "T"}, "x": {"type": "T", "properties": values}}
    yes: JsonMap = {"equals": ["a", "a"]}
    if dialect.kind == "hot":
        conditions: JsonMap = {"conditions": {"yes": yes, "no": {"not": yes}}} if dialect.conditions else {}
        return {dialect.key: dialect.version, "parameters": parameters, "resources": resources, **conditions}
    parameters = {
        "text": {"Type": "String", "Default": "abc"},
        "map": {"Type": "Json", "Default": {"k": "v"}},
        "secret": {"Type": "String", "NoEcho": True},
    }
    resources = {"known": {"Type": "T"}, "later": {"Type": "T"}, "x": {"Type": "T", "Properties": values}}
    found: JsonMap = {
        dialect.key: dialect.version,
        "Parameters": parameters,
        "Resources": resources,
        "Mappings": {"M": {"k": {"n": "found"}, "later": {"n": "found"}}},
    }
    if dialect.conditions:
        yes = {"Fn::Equals": ["a", "a"]}
        found["Conditions"] = {"yes": yes, "no": {"Fn::Not": [yes]}}
    return found


def bound(dialect: Dialect, values: JsonMap, secret: object) -> Definition:
    environment = Environment(parameters={"secret": secret})  # type: ignore[arg-type]  # UNKNOWN is allowed there
    facade = {"metadata": {}, "deletion_policy": "Delete", "update_policy": {}}
    return Template(document(dialect, values), {"file": "text"}).definition(environment, {}, facade=facade)


class Known:
    """All resources are there."""

    def reference(self, name: str) -> object:
        return f"id-of-{name}"

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:
        return {"k": "v", "l": ["w"]} if attribute == "map" else f"{attribute}-of-{name}"


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


def decides(name: str, row: Json) -> bool:
    """True for a condition that is not known yet: it counts as true."""
    return "if" in name.lower() and not (isinstance(row, list) and row[0] in ("yes", "no"))


@pytest.mark.parametrize("key", DIALECTS)
def test_what_is_not_known_yet_fails_nothing_and_changes_nothing(key: str) -> None:
    """The value with the reference known says which of the calls are right."""
    dialect = DIALECTS[key]
    made = list(calls(dialect))
    values: JsonMap = {str(number): value for number, (_, _, value) in enumerate(made)}
    definition = bound(dialect, values, "s3cret")
    known, hiding = (fields(one.resources["x"].properties) for one in (definition, bound(dialect, values, UNKNOWN)))
    assert known is not None and hiding is not None
    told = {problem.path[3] for problem in definition.findings.ordered() if len(problem.path) > 3}
    wrong, right = [], set()
    referring(definition.resources["x"].properties)
    for number, (name, kind, value) in enumerate(made):
        definition.refill()
        try:
            late = resolve(known[str(number)], Known())
        except HeatliteError:
            continue
        if str(number) in told:
            continue  # its syntax is wrong
        right.add(name)
        failed: list[Failed] = []
        early = sift(hiding[str(number)], Later(), failed)
        arguments = next(iter(value.values())) if isinstance(value, dict) else value
        if failed or not (agrees(early, late) or decides(name, arguments)):
            wrong.append((name, kind, value, early, late, [str(error) for _, error in failed]))
        if resolve(hiding[str(number)], Later()) != early:
            wrong.append((name, kind, value, "differs from", early))
    assert wrong == []
    assert right >= {name for name, one in dialect.functions.items() if one.summary}


@pytest.mark.parametrize("key", [key for key, dialect in DIALECTS.items() if dialect.conditions])
def test_conditions_over_what_is_not_known_yet(key: str) -> None:
    dialect = DIALECTS[key]
    section = dialect.sections["conditions"]
    made = document(dialect, {})
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


TYPES = Registry(BUILTIN)

def test_types_that_look_for_implied_dependencies_take_every_value() -> None:
    """All properties of all resources have the same value."""
    views = {name: view for name in TYPES.names() if (view := TYPES.find(name)) is not None}
    implying = {name for name, view in views.items() if view.after}
    kinds = implying.union(*(views[name].after for name in implying))
    for name, function in LATEST.functions.items():
        for row in CALLS[name][:2] if function.summary else ():
            value = {name: put_in(row, {"get_resource": "later"})}
            resources: JsonMap = {
                kind: {"type": kind, "properties": dict.fromkeys(views[kind].property_types(), value)} for kind in kinds
            }
            plain: JsonMap = {"known": {"type": "OS::Heat::Value"}, "later": {"type": "OS::Heat::Value"}}
            made = {**document(LATEST, {}), "resources": {**plain, **resources}}
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
    resources: JsonMap = {
        "later": {"type": "OS::Neutron::Net"},
        "subnet": {"type": "OS::Neutron::Subnet", "properties": {"network": {"get_resource": "later"}}},
        "server": {"type": "OS::Nova::Server", "properties": {"networks": networks}},
    }
    made = {LATEST.key: LATEST.version, "resources": resources}
    definition = Template(made).definition(Environment(), {}, False, TYPES)
    assert definition.resources["server"].requires == {"later", "subnet"}
