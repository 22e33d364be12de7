"""AWS::CloudFormation::Stack: a nested stack from a template at a URL."""

from collections.abc import Mapping, Sequence
from typing import cast

from heatlite.core.errors import InvalidTemplateAttribute
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import ChildStack, Schema, StackResource, prop
from heatlite.plugin.nested import member_value, steps_of
from heatlite.resources.heat.groups.members import template_of
from heatlite.template.environment import template_at
from heatlite.template.expression import UNKNOWN
from heatlite.template.types import NestedTemplate

INNER = "stack"
"""Name of the only member: the template at the URL, used as a type."""


class CfnStackProps(Schema):
    template_url: str = prop(
        alias="TemplateURL",
        update=True,
        doc="The URL of its template, or the name of a file of this template that ends with .yaml or .template.",
    )
    timeout: int | None = prop(alias="TimeoutInMinutes", update=True, doc="Accepted as in Heat, without effect.")
    parameters: dict[str, Json] | None = prop(alias="Parameters", update=True, doc="The parameters of its template.")


class CfnStack(StackResource[CfnStackProps], type="AWS::CloudFormation::Stack"):
    """A nested stack from a template at a URL.

    Its outputs are the attributes ``Outputs.NAME``, of the names in its template.
    """

    any_attribute = True

    @classmethod
    def nested_template(cls, given: Mapping[str, object]) -> NestedTemplate | None:
        coerced, faults = cls.schema.examine(given)
        if faults or coerced["TemplateURL"] is UNKNOWN:
            return None
        return NestedTemplate(dict(_template(coerced)), origin=("Parameters",))

    def goal(self) -> ChildStack:
        return ChildStack(_template(self.facts.properties))

    def recorded(self, entry: JsonMap) -> JsonMap:
        """Return the entry with the stack of the template inside.

        A Heat has no stack around that of the template.
        """
        members = entry.get("resources")
        if isinstance(members, dict) and [*members] == [INNER]:
            inner = members[INNER]
            if isinstance(inner, dict) and "resources" in inner:
                return entry
        return {"resource_id": entry.get("resource_id"), "resources": {INNER: entry}}

    def attribute(self, name: str) -> Json:
        return self.attribute_at(name, [])

    def attribute_at(self, name: str, path: Sequence[object]) -> Json:
        """Return an output of the template.

        Raises InvalidTemplateAttribute for other names.
        """
        start, steps = steps_of(name, path)
        if start != "Outputs" or not steps:
            raise InvalidTemplateAttribute(resource=self.name, key=name)
        nested = self.nested
        members = [] if nested is None else [one for one in nested.members if one.name == INNER]
        return member_value(members[0], steps) if members else None


def _template(properties: Mapping[str, object]) -> Mapping[str, Json]:
    member: dict[str, Json] = {"type": template_at(cast(str, properties["TemplateURL"]))}
    if properties.get("Parameters") is not None:
        member["properties"] = cast(Json, properties["Parameters"])
    return template_of({INNER: member})
