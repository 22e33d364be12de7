"""Skeleton template of a resource type.

It has one resource, its properties as parameters and its attributes as outputs: GET /resource_types/{type}/template.
Unlike Heat's, it is always valid. A property of any type becomes a json parameter (Heat answers 500), and so does a
list with elements other than text.
"""

from heatlite.core.json import Json, JsonMap
from heatlite.plugin.coercion import PropertyKind
from heatlite.plugin.resource import ResourceType
from heatlite.plugin.schema import Field
from heatlite.template.parameters.rules import Constraint, Custom

HOT_VERSION = "2016-10-14"
CFN_VERSION = "2012-12-12"

_HOT_TYPES = {
    PropertyKind.STRING: "string",
    PropertyKind.INTEGER: "number",
    PropertyKind.NUMBER: "number",
    PropertyKind.BOOLEAN: "boolean",
    PropertyKind.MAP: "json",
    PropertyKind.ANY: "json",
}
_CFN_TYPES = {
    "string": "String",
    "number": "Number",
    "boolean": "Boolean",
    "json": "Json",
    "comma_delimited_list": "CommaDelimitedList",
}
_ALLOWED_CONSTRAINTS = {
    "string": {"length", "allowed_values", "allowed_pattern", "custom_constraint"},
    "number": {"range", "allowed_values", "custom_constraint"},
    "boolean": {"allowed_values", "custom_constraint"},
    "comma_delimited_list": {"length", "allowed_values", "custom_constraint"},
    "json": {"length"},
}
"""Constraints of parameters in these two versions, which lack modulo."""


def skeleton(resource_type: ResourceType, language: str) -> JsonMap:
    """The template; `language` is "hot" or "cfn". Raises ValueError for another."""
    if language not in ("hot", "cfn"):
        raise ValueError(f"{language} is no template language; there are: cfn, hot")
    fields = [field for field in resource_type.schema.fields.values() if not field.hidden]
    resource = resource_type.__name__
    description = f"Initial template of {resource}"
    attributes = resource_type.attributes_schema.values()
    if language == "hot":
        outputs: JsonMap = {
            attribute.name: {"value": {"get_attr": [resource, attribute.name]}, "description": attribute.doc}
            for attribute in attributes
        }
        return {
            "heat_template_version": HOT_VERSION,
            "description": description,
            "parameters": {field.name: _hot_parameter(field) for field in fields},
            "resources": {
                resource: {
                    "type": resource_type.type_name,
                    "properties": {field.name: {"get_param": field.name} for field in fields},
                }
            },
            "outputs": outputs | {"OS::stack_id": {"value": {"get_resource": resource}}},
        }
    outputs = {
        attribute.name: {"Value": {"Fn::GetAtt": [resource, attribute.name]}, "Description": attribute.doc}
        for attribute in attributes
    }
    return {
        "HeatTemplateFormatVersion": CFN_VERSION,
        "Description": description,
        "Parameters": {field.name: _cfn_parameter(field) for field in fields},
        "Resources": {
            resource: {
                "Type": resource_type.type_name,
                "Properties": {field.name: {"Ref": field.name} for field in fields},
            }
        },
        "Outputs": outputs | {"OS::stack_id": {"Value": {"Ref": resource}}},
    }


def _parameter_type(field: Field) -> str:
    if field.kind is not PropertyKind.LIST:
        return _HOT_TYPES[field.kind]
    element = field.item.kind if field.item is not None else PropertyKind.STRING
    return "comma_delimited_list" if element is PropertyKind.STRING else "json"


def _constraints(field: Field, parameter_type: str) -> list[Constraint]:
    allowed = _ALLOWED_CONSTRAINTS[parameter_type]
    return [constraint for constraint in field.constraints if constraint.describe().keys() <= allowed]


def _hot_parameter(field: Field) -> JsonMap:
    parameter_type = _parameter_type(field)
    parameter: JsonMap = {"type": parameter_type}
    if field.doc:
        parameter["description"] = field.doc
    if field.default is not None:
        parameter["default"] = field.default
    constraints = _constraints(field, parameter_type)
    if constraints:
        parameter["constraints"] = [constraint.describe() for constraint in constraints]
    return parameter


def _cfn_parameter(field: Field) -> JsonMap:
    parameter_type = _parameter_type(field)
    parameter: JsonMap = {"Type": _CFN_TYPES[parameter_type]}
    if field.doc:
        parameter["Description"] = field.doc
    if field.default is not None:
        parameter["Default"] = _cfn_default(field.default, parameter_type)
    for constraint in _constraints(field, parameter_type):
        if not isinstance(constraint, Custom):
            parameter |= constraint.describe_cfn()
    return parameter


def _cfn_default(default: Json, parameter_type: str) -> Json:
    if parameter_type == "comma_delimited_list" and isinstance(default, list):
        return ",".join(map(str, default))
    return default
