"""Targets for hostile bytes. They catch our own errors and raise nothing else."""

import json
from collections.abc import Callable, Sequence
from typing import Final

from heatlite.core.errors import HeatliteError
from heatlite.core.json import Json
from heatlite.plugin.registry import Registry
from heatlite.template.checks.check import check, check_definition
from heatlite.template.dialects import FUNCTIONS
from heatlite.template.document import Template
from heatlite.template.environment import Environment
from heatlite.template.expression import UNKNOWN, resolve
from heatlite.template.parameters.merging import merge
from heatlite.template.source.loader import MAX_TEMPLATE_SIZE, load_mapping, load_template
from tests.resource_types import ALL_TYPES

TYPES: Final = Registry(ALL_TYPES)
FILES: Final = {"a.txt": "content", "b.yaml": "heat_template_version: 2018-08-31\n"}
PSEUDO: Final = {"OS::stack_id": "id", "OS::stack_name": "name", "OS::project_id": "project"}


class Live:
    """A stack in which `r` has every attribute, and nothing else is known."""

    def reference(self, name: str) -> object:
        return name if name == "r" else UNKNOWN

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:
        return {"a": ["x", {"b": 1}], "": None} if name == "r" else UNKNOWN


def template(data: bytes) -> None:
    """Load, bind, check and resolve a template."""
    text = data[:MAX_TEMPLATE_SIZE].decode(errors="surrogateescape")
    try:
        source = load_template(text)
    except HeatliteError:
        return
    for strict in (True, False):
        for problem in check(source, Environment(), TYPES, FILES, PSEUDO, strict):
            assert problem.text
            json.dumps([problem.path, problem.text, problem.hint]).encode()
    try:
        definition = Template(source.data, FILES).definition(Environment(), PSEUDO)
    except HeatliteError:
        return
    json.dumps(definition.describe())
    check_definition(definition, TYPES)
    values = [output.value for output in definition.outputs.values()]
    values += [resource.properties for resource in definition.resources.values()]
    for value in values:
        try:
            resolve(value, Live())
        except HeatliteError:
            continue


def environment(data: bytes) -> None:
    """Read environments (split at ``# next``), merge them, and bind a template."""
    texts = data[:MAX_TEMPLATE_SIZE].decode(errors="surrogateescape").split("# next\n")
    kinds = ("string", "number", "json", "comma_delimited_list", "boolean")
    parameters: dict[str, Json] = {kind: {"type": kind} for kind in kinds}
    resources: dict[str, Json] = {"r": {"type": "OS::Heat::Value"}, "s": {"type": "A::B"}}
    made = Template({"heat_template_version": "2021-04-16", "parameters": parameters, "resources": resources})
    try:
        parts = [Environment.parse(load_mapping(text, "environment", "Environment")) for text in texts]
        merged = merge(parts, made.parameters)
    except HeatliteError:
        return
    json.dumps(merged.to_dict(hidden=["string"]))
    assert Environment.parse(load_mapping(merged.to_dict(), "environment", "Environment"))
    definition = made.definition(merged, PSEUDO)
    json.dumps(definition.describe())
    check_definition(definition, TYPES)


def function(data: bytes) -> None:
    """One value with functions in it, in every version; what it gives must be data."""
    try:
        source = load_mapping("value: " + data[:MAX_TEMPLATE_SIZE].decode(errors="surrogateescape"))
    except HeatliteError:
        return
    value = source.data.get("value")
    parameters: dict[str, Json] = {
        "text": {"type": "string", "default": "a,b"},
        "map": {"type": "json", "default": {"a": ["x", {"b": 1}], "c": None}},
        "list": {"type": "comma_delimited_list", "default": "a,b,c"},
        "later": {"type": "string"},
    }
    for version in FUNCTIONS:
        document: dict[str, Json] = {
            "heat_template_version": version,
            "parameters": parameters,
            "resources": {"r": {"type": "OS::Heat::Value"}, "s": {"type": "OS::Heat::Value"}},
            "outputs": {"o": {"value": value}},
        }
        if version >= "2016-10-14":
            document["conditions"] = {"yes": True, "no": False, "c": value}
        definition = Template(document, FILES).definition(Environment(), PSEUDO, strict=False)
        check_definition(definition, TYPES)
        if "o" in definition.outputs:
            try:
                resolve(definition.outputs["o"].value, Live())
            except HeatliteError:
                continue


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "template": template,
    "environment": environment,
    "function": function,
}
