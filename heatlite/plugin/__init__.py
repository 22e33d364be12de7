"""All that the author of a resource type imports."""

from heatlite.core.json import Json, JsonMap
from heatlite.plugin.constraints import custom_constraint
from heatlite.plugin.nested import ChildStack, StackResource
from heatlite.plugin.ports import Change, Facts, Member, Nested, Services
from heatlite.plugin.resource import NoActionNeeded, ReplaceResource, Resize, Resource, ResourceType, SupportStatus
from heatlite.plugin.schema import Schema, prop
from heatlite.plugin.signing import Signalled

__all__ = [
    "Change",
    "ChildStack",
    "Facts",
    "Json",
    "JsonMap",
    "Member",
    "Nested",
    "NoActionNeeded",
    "ReplaceResource",
    "Resize",
    "Resource",
    "ResourceType",
    "Schema",
    "Services",
    "Signalled",
    "StackResource",
    "SupportStatus",
    "custom_constraint",
    "prop",
]
