"""OS::Heat::ResourceChain."""

from collections.abc import Mapping
from typing import cast

from heatlite.core.json import Json, JsonMap
from heatlite.plugin import ChildStack, Schema, SupportStatus, prop
from heatlite.resources.heat.groups.base import NumberedGroup
from heatlite.resources.heat.groups.members import template_of
from heatlite.template.types import NestedTemplate


class ResourceChainProps(Schema):
    resources: list[Json] = prop(update=True, doc="The types of the members, in their order.")
    concurrent: bool = prop(False, doc="True if the members are created in parallel; else one after the other.")
    resource_properties: dict[str, Json] | None = prop(doc="Properties of every member.")


class ResourceChain(NumberedGroup[ResourceChainProps], type="OS::Heat::ResourceChain"):
    """One member of each type in a list, all with the same properties.

    Each member is created after the previous one, unless concurrent is true.
    """

    support_status = SupportStatus(version="6.0.0")

    @classmethod
    def nested_template(cls, given: Mapping[str, object]) -> NestedTemplate | None:
        coerced, faults = cls.schema.examine(given)
        if faults or not isinstance(coerced.get("resources"), list):
            return None
        return NestedTemplate(_template(coerced), origin=("resources",))

    def goal(self) -> ChildStack:
        types: object = self.props.resources
        if not isinstance(types, list):  # in a preview: the types are not known yet
            return ChildStack(template_of(self.definitions))
        self.limited(len(types))
        return ChildStack(_template(self.facts.properties))


def _template(properties: Mapping[str, object]) -> JsonMap:
    types, given = properties["resources"], properties.get("resource_properties")
    in_line = properties.get("concurrent") is not True
    members: JsonMap = {}
    for number, kind in enumerate(cast(list[Json], types)):
        member: JsonMap = {"type": kind}
        if given is not None:
            member["properties"] = cast(Json, given)
        if number and in_line:
            member["depends_on"] = [str(number - 1)]
        members[str(number)] = member
    return template_of(members)
