"""Template skeletons, in both languages."""

from heatlite.core.json import Json
from heatlite.plugin import Resource, Schema, prop
from heatlite.plugin.descriptions.skeleton import skeleton


class Disk(Schema):
    size: int = prop()


class Props(Schema):
    name: str = prop(doc="A name.", length=(1, 8), pattern="[a-z]+")
    size: int = prop(3, between=(1, None), step=2, offset=1)
    kind: str = prop("a", one_of=("a", "b"), custom="test_constr")
    on: bool = prop(False)
    tags: list[str] = prop(["a", "b"])
    disks: list[Disk] = prop([{"size": 1}])
    table: dict[str, Json] | None = prop()
    anything: Json = prop(None)
    secret: str | None = prop(hidden=True)


class Thing(Resource[Props], type="Test::Thing"):
    """A thing."""

    def attr_value(self) -> str:
        """Its value."""
        return ""


def test_hot() -> None:
    assert skeleton(Thing, "hot") == {
        "heat_template_version": "2016-10-14",
        "description": "Initial template of Thing",
        "parameters": {
            "name": {
                "type": "string",
                "description": "A name.",
                "constraints": [{"length": {"min": 1, "max": 8}}, {"allowed_pattern": "[a-z]+"}],
            },
            "size": {"type": "number", "default": 3, "constraints": [{"range": {"min": 1}}]},
            "kind": {
                "type": "string",
                "default": "a",
                "constraints": [{"allowed_values": ["a", "b"]}, {"custom_constraint": "test_constr"}],
            },
            "on": {"type": "boolean", "default": False},
            "tags": {"type": "comma_delimited_list", "default": ["a", "b"]},
            "disks": {"type": "json", "default": [{"size": 1}]},
            "table": {"type": "json"},
            "anything": {"type": "json"},
        },
        "resources": {
            "Thing": {
                "type": "Test::Thing",
                "properties": {
                    name: {"get_param": name}
                    for name in ("name", "size", "kind", "on", "tags", "disks", "table", "anything")
                },
            }
        },
        "outputs": {
            "show": {"description": "Detailed information about resource.", "value": {"get_attr": ["Thing", "show"]}},
            "value": {"description": "Its value.", "value": {"get_attr": ["Thing", "value"]}},
            "OS::stack_id": {"value": {"get_resource": "Thing"}},
        },
    }


def test_cfn() -> None:
    body = skeleton(Thing, "cfn")
    assert body["HeatTemplateFormatVersion"] == "2012-12-12"
    assert body["Parameters"] == {
        "name": {
            "Type": "String",
            "Description": "A name.",
            "MinLength": 1,
            "MaxLength": 8,
            "AllowedPattern": "[a-z]+",
        },
        "size": {"Type": "Number", "Default": 3, "MinValue": 1},
        "kind": {"Type": "String", "Default": "a", "AllowedValues": ["a", "b"]},
        "on": {"Type": "Boolean", "Default": False},
        "tags": {"Type": "CommaDelimitedList", "Default": "a,b"},
        "disks": {"Type": "Json", "Default": [{"size": 1}]},
        "table": {"Type": "Json"},
        "anything": {"Type": "Json"},
    }
    assert body["Resources"] == {
        "Thing": {
            "Type": "Test::Thing",
            "Properties": {
                name: {"Ref": name} for name in ("name", "size", "kind", "on", "tags", "disks", "table", "anything")
            },
        }
    }
    assert body["Outputs"] == {
        "show": {"Description": "Detailed information about resource.", "Value": {"Fn::GetAtt": ["Thing", "show"]}},
        "value": {"Description": "Its value.", "Value": {"Fn::GetAtt": ["Thing", "value"]}},
        "OS::stack_id": {"Value": {"Ref": "Thing"}},
    }
