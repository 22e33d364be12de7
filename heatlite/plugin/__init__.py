"""All that the author of a resource type imports."""

from heatlite.core.json import Json, JsonMap
from heatlite.plugin.constraints import custom_constraint
from heatlite.plugin.ports import Change, Facts
from heatlite.plugin.resource import ReplaceResource, Resource, ResourceType, SupportStatus
from heatlite.plugin.schema import Schema, prop

__all__ = [
    "Change",
    "Facts",
    "Json",
    "JsonMap",
    "ReplaceResource",
    "Resource",
    "ResourceType",
    "Schema",
    "SupportStatus",
    "custom_constraint",
    "prop",
]
