"""Bases of the groups: a nested stack with members and joint attributes."""

from collections.abc import Mapping, Sequence
from typing import cast

from heatlite.core.errors import InvalidTemplateAttribute, RequestLimitExceeded
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Member, StackResource
from heatlite.plugin.nested import member_value, steps_of
from heatlite.plugin.resource import P_co
from heatlite.resources.heat.groups.members import definitions_in
from heatlite.template.expression import select


class Group(StackResource[P_co]):
    """Base of the groups: a nested stack with members and joint attributes."""

    @property
    def definitions(self) -> Mapping[str, Json]:
        """The current definitions of the members by name; {} without a nested stack."""
        nested = self.nested
        return {} if nested is None else definitions_in(nested.template)

    @property
    def keeps_members(self) -> bool:
        """True if the operation keeps the existing members, whatever the template's size."""
        return self.facts.keeps_members and self.nested is not None

    def limited(self, size: int) -> int:
        """Return the size.

        Raises RequestLimitExceeded if a stack may not have as many resources.
        """
        most = self.facts.services.max_resources
        if size > most:
            raise RequestLimitExceeded(message=f"Maximum resources per stack exceeded: {most}.")
        return size

    def check_pauses(self, batches: int, pause: float) -> None:
        """Raise ValueError if the pauses exceed the time limit of the operation."""
        if pause * (batches - 1) >= self.facts.time_limit:
            raise ValueError("The current update policy will result in stack update timeout.")

    def attribute(self, name: str) -> Json:
        return self.attribute_at(name, ())

    def attribute_at(self, name: str, path: Sequence[object]) -> Json:
        """Return an attribute of the group itself."""
        if name not in self.attribute_names:
            raise InvalidTemplateAttribute(resource=self.name, key=name)
        return cast(Json, select(getattr(self, f"attr_{name}")(), path, None))

    def reference(self) -> Json:
        """Return the nested stack's id; before its creation, the resource's name."""
        return self.name if self.physical_id is None else self.physical_id


class NumberedGroup(Group[P_co]):
    """Base of the groups with members called "0", "1" …

    An attribute that the group does not have itself is a list of the members' values.
    """

    any_attribute = True

    @property
    def members(self) -> dict[str, Member]:
        """The members by name, in the order of their numbers."""
        nested = self.nested
        found = {} if nested is None else {member.name: member for member in nested.members}
        return {name: found[name] for name in self.definitions if name in found}

    def attribute_at(self, name: str, path: Sequence[object]) -> Json:
        start, steps = steps_of(name, path)
        if start == "resource" and steps:
            member = self.members.get(str(steps[0]))
            if member is None:
                raise self.no_member(str(steps[0]))
            return member_value(member, steps[1:])
        if start == "attributes":
            if not steps:
                raise InvalidTemplateAttribute(resource=self.name, key=name)
            return {name: member_value(member, steps) for name, member in self.members.items()}
        if name in self.attribute_names:
            return super().attribute_at(name, path)
        return [member.attribute(name, cast(Sequence[Json], path)) for member in self.members.values()]

    def attributes(self) -> JsonMap:
        return {name: self.attribute(name) for name in self.attributes_schema if name not in ("attributes", "show")}

    def attr_refs(self) -> list[Json]:
        """References of the members."""
        return [member.reference() for member in self.members.values()]

    def attr_attributes(self) -> dict[str, Json]:
        """The members' values of the attribute named after it, by the members' names."""
        raise InvalidTemplateAttribute(resource=self.name, key="attributes")
