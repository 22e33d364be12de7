"""Judges a stack before it is taken over: obstacles, and values that will differ."""

from collections.abc import Container, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from heatlite.core.json import Json, JsonMap, heat_text
from heatlite.features.migrate.document import WITHOUT_ID, unknown_values
from heatlite.features.migrate.source import HANDLES, FoundResource, FoundStack, is_file

SIGNALLED: Final = HANDLES | {
    "OS::Heat::ScalingPolicy",
    "AWS::AutoScaling::ScalingPolicy",
}
"""Types whose address for signals others keep."""
ALLOWED: Final = frozenset({"CREATE", "UPDATE", "ADOPT", "CHECK", "RESUME", "ROLLBACK", "RESTORE", "SNAPSHOT"})
"""Actions after whose success a stack can be taken."""


class FindingKind(StrEnum):
    """Kinds of findings."""

    STATE = "state"
    NAME_TAKEN = "name taken"
    MISSING_TYPE = "missing type"
    SECRET = "hidden parameter"
    INVALID = "invalid"
    NO_ID = "no id"
    ADDRESS = "signal address"
    AGENT = "agent"
    STACK_ID = "stack id"


BLOCKING: Final = frozenset(
    {
        FindingKind.STATE,
        FindingKind.NAME_TAKEN,
        FindingKind.MISSING_TYPE,
        FindingKind.SECRET,
        FindingKind.INVALID,
        FindingKind.NO_ID,
    }
)
"""Kinds that keep a stack from being taken."""


class MigrationFinding(Struct, frozen=True):
    """One thing to know about a stack.

    `path` is a resource or a parameter; empty for the stack itself.
    """

    kind: FindingKind
    path: str
    text: str

    @property
    def blocks(self) -> bool:
        """True if the stack cannot be taken before this is mended."""
        return self.kind in BLOCKING

    def to_json(self) -> JsonMap:
        """Return the form in a report."""
        return {"kind": self.kind.value, "path": self.path, "text": self.text, "blocks": self.blocks}


def judged(found: FoundStack, types: Container[str], hidden: Mapping[str, Json]) -> list[MigrationFinding]:
    """Return the findings about a stack, those that block first.

    `types` are the types of heatlite.
    """
    findings = _state(found)
    findings += [
        MigrationFinding(FindingKind.SECRET, name, "Heat does not show its value: give it in the file of --values.")
        for name in unknown_values(found, hidden)
    ]
    for path, one in found.walk():
        findings += _resource(path, one, types)
    if _mentions(found.template, "OS::stack_id") or _mentions(found.template, "AWS::StackId"):
        text = "the template uses the stack's id, which is another in heatlite; objects keep the old one."
        findings.append(MigrationFinding(FindingKind.STACK_ID, "", text))
    return sorted(findings, key=lambda one: not one.blocks)


def _state(found: FoundStack) -> list[MigrationFinding]:
    action, _, status = found.status.partition("_")
    if status == "COMPLETE" and action in ALLOWED:
        return []
    text = f"its status in Heat is {found.status}: bring it to a completed create, update or resume first."
    return [MigrationFinding(FindingKind.STATE, "", text)]


def _resource(path: str, one: FoundResource, types: Container[str]) -> list[MigrationFinding]:
    findings = []
    if not one.status.endswith("_COMPLETE") or one.status.startswith(("INIT_", "DELETE_", "SUSPEND_")):
        findings.append(MigrationFinding(FindingKind.STATE, path, f"its status in Heat is {one.status}."))
    elif not one.physical_id and one.type not in WITHOUT_ID:
        findings.append(MigrationFinding(FindingKind.NO_ID, path, f"Heat has no physical id for it ({one.type})."))
    if one.nested is None and one.type not in types and not is_file(one.type):
        findings.append(MigrationFinding(FindingKind.MISSING_TYPE, path, f"heatlite has no type {one.type}."))
    if one.type in SIGNALLED:
        text = "its address for signals is another in heatlite; senders keep the old one until they are changed."
        findings.append(MigrationFinding(FindingKind.ADDRESS, path, text))
    if one.type == "OS::Nova::Server" and one.attributes.get("os_collect_config"):
        text = "the agent on the server asks Heat for its software until its configuration or the server is replaced."
        findings.append(MigrationFinding(FindingKind.AGENT, path, text))
    return findings


def _mentions(template: JsonMap, name: str) -> bool:
    return f'"{name}"' in heat_text(template)
