"""JSON Schema (draft-07) of HOT and the installed types, for editors.

It accepts what a create accepts, as far as a schema can tell. Values may be given in every form that is coerced. A
function may stand wherever a value may. Types of namespaces other than OS and AWS may come from an environment.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from heatlite.core.errors import ResourceTypeUnavailable
from heatlite.core.json import Json, JsonMap
from heatlite.plugin.coercion import PropertyKind
from heatlite.plugin.registry import Registry
from heatlite.plugin.resource import ResourceType
from heatlite.plugin.schema import Field, Schema
from heatlite.template.dialects import DIALECTS, TemplateVersion
from heatlite.template.document import DELETION_POLICIES
from heatlite.template.parameters.parameters import MODULO_SINCE, TAGS_SINCE, TYPES

_CALL: Final[JsonMap] = {"$ref": "#/definitions/call"}
_TEXT: Final[JsonMap] = {"type": ["string", "null"]}
_FLAG: Final[JsonMap] = {"type": ["boolean", "string", "integer", "null"]}
_INTEGER: Final = r"^\s*[-+]?[0-9_]+\s*$"
_NUMBER: Final = r"^\s*[-+]?([0-9_]+\.?[0-9_]*|\.[0-9_]+)([eE][-+]?[0-9]+)?\s*$"
_BOOLEAN: Final = "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"
_FOREIGN: Final = r"\(\?(?![:=!])|\\[AZz]|\(\?P"
"""Notation of Python's regular expressions that editors do not know."""


def json_schema(types: Registry) -> JsonMap:
    """The schema. Types that cannot be loaded are known by their names only."""
    names = types.names()
    classes = {name: found for name in names if (found := _class(types, name)) is not None}
    hot = [dialect for dialect in DIALECTS.values() if dialect.kind == "hot"]
    versions = [dialect.version for dialect in hot] + [alias for dialect in hot for alias in dialect.aliases]
    calls = {item["functions"]: item["description"] for dialect in hot for item in dialect.describe_functions()}
    tests = {name: function.summary for dialect in hot for name, function in dialect.conditions.items()}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Heat orchestration template (HOT)",
        "description": "A template in HOT, with the resource types of this heatlite.",
        "type": "object",
        "required": ["heat_template_version"],
        "additionalProperties": False,
        "properties": {
            "heat_template_version": {"enum": list(versions), "description": "The version of the language."},
            "description": {**_TEXT, "description": "What the template is for."},
            "parameter_groups": {
                "type": ["array", "null"],
                "items": {"$ref": "#/definitions/parameter_group"},
                "description": "How forms group the parameters, and in which order.",
            },
            "parameters": _section("parameter", "What a stack is given."),
            "conditions": _section("condition", "Conditions by name, decided once for the whole stack."),
            "resources": _section("resource", "What a stack consists of."),
            "outputs": _section("output", "What a stack tells."),
        },
        "allOf": _since(hot, tests),
        "definitions": {
            "call": _one_of_functions(calls, "A template function."),
            "condition_call": _one_of_functions(tests, "A condition function."),
            "condition": {"anyOf": [{"type": "boolean"}, {"$ref": "#/definitions/condition_call"}]},
            "decision": {"anyOf": [{"type": ["boolean", "string"]}, {"$ref": "#/definitions/condition_call"}]},
            "parameter_group": {
                "type": "object",
                "required": ["parameters"],
                "properties": {
                    "label": _TEXT,
                    "description": _TEXT,
                    "parameters": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
                },
            },
            "parameter": _parameter(),
            "constraint": _constraint(),
            "output": {
                "type": "object",
                "required": ["value"],
                "properties": {
                    "value": {"description": "What the output gives: any value, functions in it."},
                    "description": _TEXT,
                    "condition": {"$ref": "#/definitions/decision"},
                },
            },
            "resource": _resource(names, classes),
            **{f"properties of {name}": _properties(found) for name, found in classes.items()},
        },
    }


def _since(hot: Sequence[TemplateVersion], tests: Iterable[str]) -> list[Json]:
    """Return rules against features that older versions do not have.

    Functions are not among it: where one stands, a schema cannot see the version, and what a version does not know is
    data in it.
    """
    rules: list[Json] = []

    def without(dialects: Sequence[TemplateVersion], **sections: JsonMap | bool) -> None:
        """Add a rule: versions without some keys of sections, or whole sections.

        False stands for a whole section.
        """
        names: list[Json] = [name for dialect in dialects for name in (dialect.version, *dialect.aliases)]
        parts: JsonMap = {
            name: keys if isinstance(keys, bool) else {"additionalProperties": {"properties": keys}}
            for name, keys in sections.items()
        }
        version: JsonMap = {"heat_template_version": {"enum": names}}
        rules.append(
            {"if": {"required": ["heat_template_version"], "properties": version}, "then": {"properties": parts}}
        )

    capital: JsonMap = {"not": {"enum": [name.lower() for name in DELETION_POLICIES]}}
    without(
        [dialect for dialect in hot if "conditions" not in dialect.sections],
        conditions=False,
        resources={"condition": False, "external_id": False, "deletion_policy": capital},
        outputs={"condition": False},
    )
    for test in tests:
        without([dialect for dialect in hot if test not in dialect.conditions], conditions={test: False})
    modulo: JsonMap = {"constraints": {"items": {"properties": {"modulo": False}}}}
    without([dialect for dialect in hot if dialect.version < MODULO_SINCE], parameters=modulo)
    without([dialect for dialect in hot if dialect.version < TAGS_SINCE], parameters={"tags": False})
    return rules


def _class(types: Registry, name: str) -> ResourceType | None:
    try:
        return types.get(name)
    except ResourceTypeUnavailable:
        return None


def _section(definition: str, description: str) -> JsonMap:
    return {
        "type": ["object", "null"],
        "additionalProperties": {"$ref": f"#/definitions/{definition}"},
        "description": description,
    }


def _one_of_functions(summaries: Mapping[str, str], description: str) -> JsonMap:
    return {
        "description": description,
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
        "properties": {name: {"description": summary} for name, summary in sorted(summaries.items())},
    }


def _parameter() -> JsonMap:
    return {
        "type": "object",
        "required": ["type"],
        "additionalProperties": False,
        "properties": {
            "type": {"enum": list(TYPES), "description": "What the value must be."},
            "label": {"type": ["string", "number", "null"], "description": "What forms call it."},
            "description": {"type": ["string", "number", "null"], "description": "What the value is for."},
            "default": {"description": "The value where none is given."},
            "hidden": {**_FLAG, "description": "Whether the value is shown as stars."},
            "immutable": {**_FLAG, "description": "Whether an update may not change the value."},
            "constraints": {
                "type": ["array", "null"],
                "items": {"$ref": "#/definitions/constraint"},
                "description": "What the value must be beyond its type.",
            },
            "tags": {
                "type": ["array", "null"],
                "items": {"type": "string"},
                "description": "Words for those who sort parameters (from 2018-03-02).",
            },
            "schema": {"description": "Accepted, and not used."},
        },
    }


def _constraint() -> JsonMap:
    bound: JsonMap = {"type": ["number", "string", "null"]}
    bounds: JsonMap = {"type": "object", "additionalProperties": False, "properties": {"min": bound, "max": bound}}
    kinds: dict[str, JsonMap] = {
        "length": {**bounds, "minProperties": 1, "description": "How long a text or a list is; both bounds included."},
        "range": {**bounds, "minProperties": 1, "description": "Between which numbers; both included."},
        "modulo": {
            "type": "object",
            "required": ["step", "offset"],
            "additionalProperties": False,
            "properties": {"step": bound, "offset": bound},
            "description": "A multiple of step, plus offset (from 2017-02-24).",
        },
        "allowed_values": {"type": "array", "description": "The only values."},
        "allowed_pattern": {"type": "string", "description": "A regular expression that the whole text matches."},
        "custom_constraint": {"type": "string", "description": "The name of a check, like neutron.network."},
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {**kinds, "description": {**_TEXT, "description": "What to tell where the value is wrong."}},
        "oneOf": [{"required": [kind]} for kind in kinds],
    }


def _resource(names: list[str], classes: Mapping[str, ResourceType]) -> JsonMap:
    known: list[Json] = [{"const": name, "description": _summary(classes.get(name))} for name in names]
    policies: list[Json] = [*DELETION_POLICIES, *map(str.lower, DELETION_POLICIES), None]
    return {
        "type": "object",
        "required": ["type"],
        "additionalProperties": False,
        "properties": {
            "type": {
                "description": "What kind of thing it is.",
                "type": "string",
                "anyOf": [
                    *known,
                    {
                        "not": {"pattern": "^(OS|AWS)::"},
                        "description": "A template's file, or a name that an environment maps.",
                    },
                ],
            },
            "properties": {"description": "What it shall be like; depends on the type."},
            "metadata": {
                "anyOf": [{"type": ["object", "null"]}, _CALL],
                "description": "Data about the resource that others can read.",
            },
            "depends_on": {
                "anyOf": [{"type": ["string", "null"]}, {"type": "array", "items": {"type": "string"}}],
                "description": "Resources that must be there first.",
            },
            "update_policy": {"anyOf": [{"type": ["object", "null"]}, _CALL], "description": "How updates are made."},
            "deletion_policy": {
                "anyOf": [{"enum": policies}, _CALL],
                "description": "The treatment of the object when the resource is deleted.",
            },
            "description": {**_TEXT, "description": "What it is for."},
            "external_id": {
                "anyOf": [{"type": ["string", "null"]}, _CALL],
                "description": "An object that is there already, to be taken over (from 2016-10-14).",
            },
            "condition": {
                "$ref": "#/definitions/decision",
            },
        },
        "allOf": [
            {
                "if": {"required": ["type"], "properties": {"type": {"const": name}}},
                "then": {
                    "properties": {"properties": {"$ref": f"#/definitions/properties of {name}"}},
                    # An adopted object is not constrained.
                    **(
                        {"anyOf": [{"required": ["properties"]}, {"required": ["external_id"]}]}
                        if any(field.required for field in found.schema.fields.values())
                        else {}
                    ),
                },
            }
            for name, found in classes.items()
        ],
    }


def _summary(found: ResourceType | None) -> str:
    return "" if found is None else found.description().partition("\n\n")[0].replace("\n", " ")


def _properties(found: ResourceType) -> JsonMap:
    anything = not found.schema.check({"no such property": 1})
    own: JsonMap = {"type": ["object", "null"]} if anything else _fields(found.schema)
    return {"description": found.description(), "anyOf": [own, _CALL]}


def _fields(schema: type[Schema]) -> JsonMap:
    fields = schema.fields
    old_names = {field.means: name for name, field in fields.items() if field.means}
    required = [name for name, field in fields.items() if field.required]
    described: JsonMap = {
        "type": ["object", "null"],
        "required": [name for name in required if name not in old_names],
        "additionalProperties": False,
        "properties": {name: _field(field) for name, field in fields.items()},
    }
    either: list[Json] = [
        {"anyOf": [{"required": [name]}, {"required": [old_names[name]]}]} for name in required if name in old_names
    ]
    return {**described, "allOf": either} if either else described


def _field(field: Field) -> JsonMap:
    described: JsonMap = {}
    if field.doc:
        described["description"] = field.doc
    if field.default is not None and not field.hidden:
        described["default"] = field.default
    if field.kind is PropertyKind.ANY:
        return described
    return {**described, "anyOf": [*_forms(field), {"type": "null"}, _CALL]}


def _forms(field: Field) -> list[Json]:
    """Return the schemas of the forms that are coerced to the property's type."""
    match field.kind:
        case PropertyKind.STRING:
            return [{"type": "string", **_of_text(field)}, {"type": ["boolean", "integer"], **_choice(field)}]
        case PropertyKind.INTEGER:
            return [{"type": "integer", **_of_number(field)}, {"type": "string", "pattern": _INTEGER}]
        case PropertyKind.NUMBER:
            return [{"type": "number", **_of_number(field)}, {"type": "string", "pattern": _NUMBER}]
        case PropertyKind.BOOLEAN:
            return [{"type": "boolean"}, {"type": "string", "pattern": _BOOLEAN}]
        case PropertyKind.LIST:
            items: JsonMap = {} if field.item is None else {"items": _field(field.item)}
            return [{"type": "array", **_bounds(field, "length", "minItems", "maxItems"), **items}]
    own: JsonMap = {"type": "object"} if field.schema is None else _fields(field.schema)
    return [{**own, **_bounds(field, "length", "minProperties", "maxProperties")}]


def _rules(field: Field) -> JsonMap:
    rules: JsonMap = {}
    for constraint in field.constraints:
        rules |= constraint.describe()
    return rules


def _bounds(field: Field, rule: str, low: str, high: str) -> JsonMap:
    bounds = _rules(field).get(rule)
    if not isinstance(bounds, dict):
        return {}
    named = {low: bounds.get("min"), high: bounds.get("max")}
    return {name: value for name, value in named.items() if value is not None}


def _of_text(field: Field) -> JsonMap:
    found = _bounds(field, "length", "minLength", "maxLength")
    pattern = _rules(field).get("allowed_pattern")
    if isinstance(pattern, str) and not re.search(_FOREIGN, pattern):
        found["pattern"] = f"^(?:{pattern})$"
    return found | _choice(field)


def _of_number(field: Field) -> JsonMap:
    return _bounds(field, "range", "minimum", "maximum") | _choice(field)


def _choice(field: Field) -> JsonMap:
    allowed = _rules(field).get("allowed_values")
    if not isinstance(allowed, list):
        return {}
    # A number or a boolean is taken for the text that it becomes.
    texts: list[Json] = [int(item) for item in allowed if isinstance(item, str) and item.isdecimal()]
    texts += [item == "True" for item in allowed if item in ("True", "False")]
    return {"enum": [*allowed, *texts]}
