"""Makes the stack document that heatlite adopts from a stack of a Heat."""

from collections.abc import Mapping
from typing import Final

from heatlite.core.ids import new_id, physical_name
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.features.migrate.source import HANDLES, FoundResource, FoundStack

REDACTED: Final = "******"
"""Value that a Heat shows in place of a hidden parameter's."""
SCALING: Final = frozenset(
    {"OS::Heat::AutoScalingGroup", "OS::Heat::InstanceGroup", "AWS::AutoScaling::AutoScalingGroup"}
)
"""Groups whose members have random names."""
WITHOUT_ID: Final = frozenset(
    {"OS::Heat::SwiftSignal", "OS::Heat::WaitCondition", "AWS::CloudFormation::WaitCondition"}
)
"""Types that have no id in a Heat."""
DATA: Final[Mapping[str, Mapping[str, str]]] = {
    "OS::Heat::RandomString": {"value": "value"},
    "OS::Heat::SwiftSignalHandle": {"endpoint": "endpoint"},
    "OS::Nova::KeyPair": {"private_key": "private_key"},
    "AWS::IAM::AccessKey": {"SecretAccessKey": "secret"},
}
"""Type → attribute of a Heat → key of heatlite's `resource_data`."""
SIGNED: Final = frozenset({"signature", "expires", "paths", "methods", "project"})
"""Attributes of an OS::Zaqar::SignedQueueURL that are Zaqar's answer, which heatlite keeps."""
GROUP_VERSION: Final = "2015-04-30"
"""Version of the templates that groups make for their members."""


def document(found: FoundStack, hidden: Mapping[str, Json]) -> JsonMap:
    """Return the document.

    `hidden` are values of hidden parameters, which a Heat shows in an export record only.
    """
    return {
        "name": found.name,
        "id": found.id,
        "action": found.status.partition("_")[0],
        "status": "COMPLETE",
        "template": found.template,
        "environment": environment(found, hidden),
        "files": found.files,
        "resources": _resources(found, _resources_of(found.exported)),
    }


def environment(found: FoundStack, hidden: Mapping[str, Json]) -> JsonMap:
    """Return the environment with the values of hidden parameters in place of stars."""
    own = {name: value for name, value in found.environment.items() if name not in DROPPED}
    exported = (found.exported or {}).get("environment")
    for section in ("parameters", "parameter_defaults"):
        given = own.get(section)
        if isinstance(given, dict):
            known = exported.get(section) if isinstance(exported, dict) else None
            known = {**as_map(known), **hidden}
            own[section] = {
                name: known.get(name, value) if value == REDACTED else value for name, value in given.items()
            }
    return own


DROPPED: Final = ("encrypted_param_names", "event_sinks")
"""Sections of a Heat's environment that are about the Heat itself."""


def unknown_values(found: FoundStack, hidden: Mapping[str, Json]) -> list[str]:
    """Return the names of hidden parameters without a value."""
    made = environment(found, hidden)
    sections = (made.get(section) for section in ("parameters", "parameter_defaults"))
    return sorted({name for one in sections if isinstance(one, dict) for name in one if one[name] == REDACTED})


def _resources(found: FoundStack, exported: Mapping[str, Json]) -> JsonMap:
    return {one.name: _resource(found, one, as_map(exported.get(one.name))) for one in found.resources}


def _resource(found: FoundStack, one: FoundResource, exported: JsonMap) -> JsonMap:
    entry: JsonMap = {
        "name": one.name,
        "resource_id": one.physical_id or None,
        "physical_name": _name(found, one),
        "type": one.template_type,
        "action": one.status.partition("_")[0],
        "status": "COMPLETE",
        "metadata": {},
        "resource_data": {**_exported_data(one, exported), **_data(one)},
    }
    if one.type in WITHOUT_ID and not one.physical_id:
        entry["resource_id"] = entry["physical_name"] = physical_name(found.name, one.name, new_id())
    if one.nested is not None:
        entry |= {"resource_id": one.nested.id, "physical_name": one.nested.name}
        entry["resources"] = _resources(one.nested, _resources_of(exported))
        if one.type in SCALING:
            entry["template"] = {
                "heat_template_version": GROUP_VERSION, "resources": one.nested.template.get("resources") or {}
            }  # fmt: skip
    return entry


def _name(found: FoundStack, one: FoundResource) -> str | None:
    """Return the physical name, where the Heat shows it.

    It does for servers, and where the id is the name.
    """
    start = f"{found.name}-{one.name}-"
    for shown in (one.attributes.get("name"), one.physical_id):
        if isinstance(shown, str) and shown.startswith(start) and len(shown) == len(start) + 12:
            return shown
    return None


def _exported_data(one: FoundResource, exported: JsonMap) -> JsonMap:
    """Return what heatlite's type reads of a Heat's `resource_data`.

    The rest may be credentials of that Heat.
    """
    data = as_map(exported.get("resource_data"))
    return {key: data[key] for key in DATA.get(one.type, {}).values() if key in data}


def _data(one: FoundResource) -> JsonMap:
    """Return what heatlite's type keeps besides the id."""
    if one.type in HANDLES:
        return {"signals": {key: _signal(value) for key, value in one.metadata.items() if isinstance(value, dict)}}
    if one.type in ("OS::Heat::SoftwareDeployment", "OS::Heat::StructuredDeployment"):
        return {"deployment": one.attributes}
    if one.type == "OS::Heat::ResourceGroup" and one.nested is not None:
        return _removed([each.name for each in one.nested.resources])
    if one.type == "OS::Zaqar::SignedQueueURL":
        return {"signed": {name: value for name, value in one.attributes.items() if name in SIGNED}}
    kept = DATA.get(one.type, {})
    return {key: one.attributes[name] for name, key in kept.items() if one.attributes.get(name) is not None}


def _signal(value: JsonMap) -> JsonMap:
    lower = {key.lower(): content for key, content in value.items()}
    return {"status": lower.get("status"), "reason": lower.get("reason") or "", "data": lower.get("data")}


def _removed(names: list[str]) -> JsonMap:
    """Return the names below the highest that a group has removed.

    They are not used again.
    """
    numbers = [int(name) for name in names if name.isdecimal()]
    gone = sorted({*range(max(numbers, default=-1) + 1)} - {*numbers})
    return {"removed": {str(number): str(number) for number in gone}} if gone else {}


def _resources_of(record: JsonMap | None) -> JsonMap:
    return as_map((record or {}).get("resources"))
