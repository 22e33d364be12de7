"""All that the author of a resource type imports."""

from heatlite.plugin.constraints import custom_constraint
from heatlite.plugin.ports import Change, Facts
from heatlite.plugin.resource import ReplaceResource, Resource, ResourceType, SupportStatus
from heatlite.plugin.schema import Schema, prop

__all__ = [
    "Change",
    "Facts",
    "ReplaceResource",
    "Resource",
    "ResourceType",
    "Schema",
    "SupportStatus",
    "custom_constraint",
    "prop",
]
