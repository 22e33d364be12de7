"""The permissions of each role: one table, rule by rule.

Names of rules are Heat's; those of heatlite's own routes follow the same style.
"""

from collections import ChainMap
from collections.abc import Container, Mapping
from typing import Final, Protocol

from heatlite.core.context import ADMIN, STACK_USER, TYPE, Context

READERS: Final = frozenset({"reader", "member", ADMIN})
MEMBERS: Final = frozenset({"member", ADMIN})
ADMINS: Final = frozenset({ADMIN})

OPEN: Final = ""
"""In place of a rule: no authentication."""

SIGNAL: Final = "resource:signal"
PROVEN: Final = "nodes:register"
"""In place of a rule: no account; the handler checks the signed URL. The audit log shows this name."""

TABLE: Final = {
    "actions:action": READERS,
    "actions:attach_policy": MEMBERS,
    "actions:cancel_update": MEMBERS,
    "actions:cancel_without_rollback": MEMBERS,
    "actions:check": READERS,
    "actions:complete_lifecycle": MEMBERS,
    "actions:delete": MEMBERS,
    "actions:delete_members": MEMBERS,
    "actions:detach_policy": MEMBERS,
    "actions:join": MEMBERS,
    "actions:leave": MEMBERS,
    "actions:end_bake": MEMBERS,
    "actions:force": ADMINS,
    "actions:history": READERS,
    "actions:list": READERS,
    "actions:lock": MEMBERS,
    "actions:protect": MEMBERS,
    "actions:recover": MEMBERS,
    "actions:replace_members": MEMBERS,
    "actions:resize": MEMBERS,
    "actions:resume": MEMBERS,
    "actions:retry": MEMBERS,
    "actions:rotate_keys": MEMBERS,
    "actions:scale_in": MEMBERS,
    "actions:scale_out": MEMBERS,
    "actions:show": READERS,
    "actions:signal": MEMBERS,
    "actions:suspend": MEMBERS,
    "actions:unlock": MEMBERS,
    "actions:unprotect": MEMBERS,
    "actions:update": MEMBERS,
    "actions:update_policy": MEMBERS,
    "audit:index": READERS,
    "build_info:build_info": READERS,
    "events:index": READERS,
    "events:show": READERS,
    "resource:index": READERS,
    "resource:mark_unhealthy": MEMBERS,
    "resource:metadata": READERS | {STACK_USER},
    "resource:show": READERS,
    SIGNAL: MEMBERS | {STACK_USER},
    "service:index": ADMINS,
    "software_configs:create": MEMBERS,
    "software_configs:delete": MEMBERS,
    "software_configs:global_index": ADMINS,
    "software_configs:index": READERS,
    "software_configs:show": READERS,
    "software_deployments:create": MEMBERS,
    "software_deployments:delete": MEMBERS,
    "software_deployments:index": READERS,
    "software_deployments:metadata": READERS | {STACK_USER},
    "software_deployments:show": READERS,
    "software_deployments:update": MEMBERS,
    "stacks:abandon": MEMBERS,
    "stacks:create": MEMBERS,
    "stacks:delete": MEMBERS,
    "stacks:delete_snapshot": MEMBERS,
    "stacks:detail": READERS,
    "stacks:drop_suppressed": MEMBERS,
    "stacks:environment": READERS,
    "stacks:export": MEMBERS,
    "stacks:files": READERS,
    "stacks:generate_template": MEMBERS,
    "stacks:global_index": ADMINS,
    "stacks:index": READERS,
    "stacks:list_outputs": READERS,
    "stacks:list_resource_types": READERS,
    "stacks:list_snapshots": READERS,
    "stacks:list_template_functions": READERS,
    "stacks:list_template_versions": READERS,
    "stacks:lookup": READERS | {STACK_USER},
    "stacks:preview": READERS,
    "stacks:preview_update": MEMBERS,
    "stacks:preview_update_patch": MEMBERS,
    "stacks:replay_suppressed": MEMBERS,
    "stacks:resource_schema": READERS,
    "stacks:restore_snapshot": MEMBERS,
    "stacks:show": READERS,
    "stacks:show_lock": READERS,
    "stacks:show_output": READERS,
    "stacks:show_snapshot": READERS,
    "stacks:snapshot": MEMBERS,
    "stacks:template": READERS,
    "stacks:update": MEMBERS,
    "stacks:update_patch": MEMBERS,
    "stacks:validate_template": MEMBERS,
}
"""Rules → roles, of which one suffices. Access to the project has been checked before.

POST …/actions needs ``actions:action`` and the rule of the named action.
"""


# A type without a rule needs no more than the right to create stacks.
TABLE.update(
    dict.fromkeys(
        (
            TYPE + name
            for name in (
                "OS::Cinder::EncryptedVolumeType",
                "OS::Cinder::QoSAssociation",
                "OS::Cinder::QoSSpecs",
                "OS::Cinder::Quota",
                "OS::Cinder::VolumeType",
                "OS::Keystone::*",
                "OS::Neutron::ProviderNet",
                "OS::Neutron::QoSBandwidthLimitRule",
                "OS::Neutron::QoSDscpMarkingRule",
                "OS::Neutron::QoSMinimumBandwidthRule",
                "OS::Neutron::QoSMinimumPacketRateRule",
                "OS::Neutron::QoSPolicy",
                "OS::Neutron::Quota",
                "OS::Neutron::Segment",
                "OS::Nova::Flavor",
                "OS::Nova::HostAggregate",
                "OS::Nova::Quota",
                "OS::Octavia::AvailabilityZone",
                "OS::Octavia::AvailabilityZoneProfile",
                "OS::Octavia::Flavor",
                "OS::Octavia::FlavorProfile",
                "OS::Octavia::Quota",
            )
        ),
        ADMINS,
    )
)


def rule_of(rule: str, known: Container[str]) -> str | None:
    """Return the rule to check, or None.

    A resource type may have the rule of its service.
    """
    if not rule.startswith(TYPE):
        return rule
    return next((one for one in (rule, rule.rpartition("::")[0] + "::*") if one in known), None)


class Policy(Protocol):
    """Decides on permissions."""

    def allows(self, rule: str, caller: Context) -> bool:
        """Return True if the caller has the right that the rule names, in its project."""

    def is_admin(self, caller: Context) -> bool:
        """Return True for an administrator of the installation."""


class Table:
    """Decides by `TABLE`, and the rules of features.

    No caller has the right of another rule: its feature is off.
    """

    def __init__(self, more: Mapping[str, frozenset[str]]) -> None:
        self._rules = ChainMap(TABLE, {**more})

    def allows(self, rule: str, caller: Context) -> bool:
        asked = rule_of(rule, self._rules)
        return asked is None or not caller.roles.isdisjoint(self._rules.get(asked, ()))

    def is_admin(self, caller: Context) -> bool:
        return caller.is_admin
