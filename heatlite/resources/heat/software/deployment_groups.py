"""Groups of deployments: one config for several servers."""

from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

from heatlite.core.json import Json, JsonMap
from heatlite.plugin import ChildStack, Schema, SupportStatus, prop
from heatlite.resources.heat.groups.base import Group
from heatlite.resources.heat.groups.members import definitions_in, template_of
from heatlite.resources.heat.groups.rolling import Batches, Rolling
from heatlite.resources.heat.software.deployments import CommonProps, StructuredProps
from heatlite.template.expression import select
from heatlite.template.types import NestedTemplate


class DeploymentGroupPolicy(Schema):
    batch_create: Batches | None = prop(doc="Batches in which the deployments are created; default: all at once.")
    rolling_update: Batches | None = prop(doc="Batches in which the deployments are changed; default: all at once.")


class SoftwareGroupProps(CommonProps):
    servers: dict[str, Json] = prop(update=True, doc="The ids of the servers, by unique names.")


class StructuredGroupProps(StructuredProps):
    servers: dict[str, Json] = prop(update=True, doc="The ids of the servers, by unique names.")


GroupSchema = TypeVar("GroupSchema", bound=SoftwareGroupProps | StructuredGroupProps, covariant=True)


class DeploymentGroup(Group[GroupSchema]):
    """Base of the groups: a nested stack with a deployment per server of the map."""

    any_attribute = True
    update_policy = DeploymentGroupPolicy
    member_type = "OS::Heat::SoftwareDeployment"

    @classmethod
    def nested_template(cls, given: Mapping[str, object]) -> NestedTemplate | None:
        coerced, faults = cls.schema.examine(given)
        members = None if faults else cls._members(coerced)
        return NestedTemplate(template_of(members), origin=("servers",)) if members else None

    @classmethod
    def _members(cls, given: Mapping[str, object]) -> dict[str, Json] | None:
        """Return the deployments by name; None while the servers are unknown."""
        servers = given.get("servers")
        if not isinstance(servers, Mapping):
            return None
        common = {name: value for name, value in given.items() if name != "servers" and value is not None}
        return {
            name: {"type": cls.member_type, "properties": cast(JsonMap, {**common, "server": server})}
            for name, server in servers.items()
        }

    def goal(self) -> ChildStack:
        members = self._members(self.facts.properties)
        if members is None:
            return ChildStack(template_of(self.definitions))
        self.limited(len(members))
        return ChildStack(template_of(members))

    def child(self, number: int) -> ChildStack | None:
        rolling, goal = self._rolling(), self.goal()
        members = definitions_in(goal.template)
        if not members or rolling is None:
            return goal if number == 0 else None
        steps = [*rolling.batches(len(members), 0)]
        if number == 0:
            self.check_pauses(len(steps), rolling.pause)
        if number >= len(steps):
            return None
        changed = {*[*members][: steps[number].size]}
        now = {**self.definitions, **{name: members[name] for name in changed}}
        made = {name: now[name] for name in members if name in now}
        return ChildStack(template_of(made), pause=rolling.pause if number else 0.0)

    def _rolling(self) -> Rolling | None:
        """Return the policy of this create or update. None: all at once."""
        policy = DeploymentGroupPolicy(DeploymentGroupPolicy.coerce(self.facts.update_policy))
        given = policy.batch_create if self.facts.before is None else policy.rolling_update
        return None if given is None else given.rolling()

    def attribute_at(self, name: str, path: Sequence[object]) -> Json:
        """Return an attribute; any output of the config is one, too."""
        if name in self.attribute_names:
            return super().attribute_at(name, path)
        return cast(Json, select(self._answers(name), path, None))

    def _answers(self, name: str) -> dict[str, Json]:
        """Return an attribute of each deployment, by the names of the servers."""
        members = () if self.nested is None else self.nested.members
        return {member.name: member.attribute(name) for member in members}

    def attr_deploy_stdouts(self) -> dict[str, Json]:
        """The standard output of the tool on each server."""
        return self._answers("deploy_stdout")

    def attr_deploy_stderrs(self) -> dict[str, Json]:
        """The standard error output of the tool on each server."""
        return self._answers("deploy_stderr")

    def attr_deploy_status_codes(self) -> dict[str, Json]:
        """The exit status of the tool on each server."""
        return self._answers("deploy_status_code")


class SoftwareDeploymentGroup(DeploymentGroup[SoftwareGroupProps], type="OS::Heat::SoftwareDeploymentGroup"):
    """Deploys a config to several servers.

    Each output of the config is an attribute: a map of the servers' answers.
    """

    support_status = SupportStatus(version="5.0.0")


class StructuredDeploymentGroup(DeploymentGroup[StructuredGroupProps], type="OS::Heat::StructuredDeploymentGroup"):
    """Deploys an OS::Heat::StructuredConfig to several servers.

    Each output of the config is an attribute: a map of the servers' answers.
    """

    member_type = "OS::Heat::StructuredDeployment"
    support_status = SupportStatus(version="5.0.0")


def _replaced_by(name: str) -> SupportStatus:
    return SupportStatus("HIDDEN", "7.0.0", f"{name} has taken its place.", SupportStatus("DEPRECATED", "2014.2"))


class SoftwareDeployments(SoftwareDeploymentGroup, type="OS::Heat::SoftwareDeployments"):
    """The old name of OS::Heat::SoftwareDeploymentGroup."""

    old_name_of = "OS::Heat::SoftwareDeploymentGroup"
    support_status = _replaced_by(old_name_of)


class StructuredDeployments(StructuredDeploymentGroup, type="OS::Heat::StructuredDeployments"):
    """The old name of OS::Heat::StructuredDeploymentGroup."""

    old_name_of = "OS::Heat::StructuredDeploymentGroup"
    support_status = _replaced_by(old_name_of)
