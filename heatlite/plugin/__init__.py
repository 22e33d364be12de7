"""All that the author of a resource type imports."""

from heatlite.clients.cloud import CloudError, CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin.cloud import CloudResource
from heatlite.plugin.constraints import custom_constraint
from heatlite.plugin.handlers import (
    Absent,
    NoActionNeeded,
    ReplaceResource,
    Resize,
    ResourceInError,
    ServiceConflict,
    Unhealthy,
)
from heatlite.plugin.nested import ChildStack, StackResource
from heatlite.plugin.ports import Change, Facts, Member, Nested, Services
from heatlite.plugin.property_rules import prop
from heatlite.plugin.resource import Resource, ResourceType, SupportStatus
from heatlite.plugin.schema import Schema
from heatlite.plugin.signing import Node, Signalled

__all__ = [
    "Absent",
    "Change",
    "ChildStack",
    "CloudError",
    "CloudNotFound",
    "CloudResource",
    "Facts",
    "Json",
    "JsonMap",
    "Member",
    "Nested",
    "NoActionNeeded",
    "Node",
    "ReplaceResource",
    "Resize",
    "Resource",
    "ResourceInError",
    "ResourceType",
    "Schema",
    "ServiceConflict",
    "Services",
    "Signalled",
    "StackResource",
    "SupportStatus",
    "Unhealthy",
    "custom_constraint",
    "prop",
]
