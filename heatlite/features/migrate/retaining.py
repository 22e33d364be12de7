"""Template with which a Heat keeps the objects of a stack that it deletes."""

from collections.abc import Mapping
from typing import Final

from heatlite.core.json import JsonMap, as_map
from heatlite.features.migrate.source import FoundResource, FoundStack

WITH_OBJECTS: Final = frozenset(
    {
        "OS::Heat::AccessPolicy",
        "OS::Heat::AutoScalingGroup",
        "OS::Heat::HARestarter",
        "OS::Heat::InstanceGroup",
        "OS::Heat::ResourceChain",
        "OS::Heat::ResourceGroup",
        "OS::Heat::Stack",
        "OS::Heat::SwiftSignalHandle",
    }
)
"""Types of the Heat itself that have objects elsewhere, or a nested stack with such."""
RECORDS: Final = (
    "OS::Heat::", "AWS::CloudFormation::WaitCondition", "AWS::AutoScaling::ScalingPolicy",
)  # fmt: skip
"""Beginnings of types that are records of the Heat: other types have objects elsewhere.

They stay as they are in the update. A changed deployment, for example, is sent to its server again.
"""
SIZES: Final[Mapping[str, str]] = {
    "OS::Heat::AutoScalingGroup": "desired_capacity",
    "AWS::AutoScaling::AutoScalingGroup": "DesiredCapacity",
    "OS::Heat::InstanceGroup": "Size",
}
"""Properties to whose number an update of a Heat returns a group that was scaled since."""
REPLACED: Final = frozenset({"OS::Heat::UpdateWaitConditionHandle"})
"""Types that each update replaces."""


def retaining(found: FoundStack) -> JsonMap:
    """Return the template with a deletion policy that keeps each object.

    A nested stack is kept with its resource, so this is enough for all depths. Groups keep their present size.
    """
    is_cfn = "Resources" in found.template
    section, key, properties = (
        ("Resources", "DeletionPolicy", "Properties") if is_cfn else ("resources", "deletion_policy", "properties")
    )
    kept: JsonMap = {}
    resources = {one.name: one for one in found.resources}
    for name, definition in as_map(found.template.get(section)).items():
        one = resources.get(name)
        kept[name] = definition
        if one is not None and not _is_record(one):
            kept[name] = {**as_map(definition), key: "Retain", **_sized(one, as_map(definition), properties)}
    return {**found.template, section: kept}


def obstacles(found: FoundStack) -> list[str]:
    """Return the resources that any update of the stack replaces."""
    return [path for path, one in found.walk() if one.type in REPLACED]


def _is_record(one: FoundResource) -> bool:
    return one.type.startswith(RECORDS) and one.type not in WITH_OBJECTS


def _sized(one: FoundResource, definition: JsonMap, section: str) -> JsonMap:
    given, name = as_map(definition.get(section)), SIZES.get(one.type)
    if name not in given or one.nested is None:
        return {}
    return {section: {**given, name: len(one.nested.resources)}}
