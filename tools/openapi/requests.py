"""Schemas of the request bodies, from the structs and documents that check them."""

import ast
import inspect
from collections.abc import Mapping
from functools import cache

from heatlite.api import bodies, group_bodies
from heatlite.core.json import Json, JsonMap
from heatlite.core.validation import schema_of
from heatlite.engine.state import group_requests
from heatlite.features.healing import by_hand
from heatlite.features.healing.api import intake, policies
from heatlite.features.healing.intake import source_document
from heatlite.features.healing.rules import policy
from heatlite.features.nodes import playbooks as runs
from heatlite.features.nodes.agents import registration
from heatlite.features.nodes.api import node_actions, playbooks
from tools.openapi.reference import plain
from tools.openapi.schemas import ref

MODULES = (
    bodies, group_bodies, group_requests, by_hand, intake, node_actions, playbooks, policies, registration,
    policy, runs, source_document,
)  # fmt: skip
"""Modules with the structs of bodies, whose fields have docstrings."""
NO_OPTIONS: JsonMap = {"description": "Not read; clients send null or an empty text."}


@cache
def _docs() -> Mapping[str, Mapping[str, str]]:
    """Return the docstrings of fields, by the names of struct and field."""
    found: dict[str, dict[str, str]] = {}
    for module in MODULES:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                bases = (ast.unparse(base).rpartition(".")[2] for base in node.bases)
                docs = {name: doc for base in bases for name, doc in found.get(base, {}).items()}
                for field, text in zip(node.body, node.body[1:], strict=False):
                    match field, text:
                        case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                            docs[name] = plain(" ".join(doc.split()))
                found[node.name] = docs
    return found


def _described(schema: Json) -> Json:
    """Return the schema of a struct with the docstrings of its fields."""
    if isinstance(schema, list):
        return [_described(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _described(one) for key, one in schema.items()}
    if isinstance(found.get("description"), str):
        found["description"] = plain(" ".join(str(found["description"]).split()))
    properties = found.get("properties")
    if isinstance(properties, dict):
        docs = _docs()[str(found["title"])]
        found["properties"] = {
            name: {**field, "description": docs[name]} if name in docs and isinstance(field, dict) else field
            for name, field in properties.items()
        }
    return found


def _schema(kind: type) -> JsonMap:
    found = _described(schema_of(kind))
    assert isinstance(found, dict)
    return found


def _action(name: str, *kinds: type, optional: bool = True) -> JsonMap:
    """Return the schema of an object with the name of an action as its only key."""
    values: list[Json] = [_schema(kind) for kind in kinds]
    if optional:
        values.append({"enum": ["", None]})
    value: JsonMap = {"anyOf": values} if len(values) > 1 else _schema(kinds[0])
    return _only(name, value)


def _only(name: str, value: JsonMap) -> JsonMap:
    return {"type": "object", "properties": {name: value}, "required": [name], "additionalProperties": False}


def _needs_one(kind: type, *alternatives: str) -> JsonMap:
    """Return the schema of a struct of which one of several fields is not null."""
    given: JsonMap = {"not": {"type": "null"}}
    return {**_schema(kind), "anyOf": [{"required": [one], "properties": {one: given}} for one in alternatives]}


_SIGNAL: JsonMap = {"type": ["object", "null"]}
_REPORTS = ref("HealthReports")
_WHOLE = _needs_one(bodies.Definition, "template", "template_url")

BODIES: dict[str, JsonMap] = {
    "Create stack": _needs_one(bodies.Creation, "template", "template_url", "adopt_stack_data"),
    "Preview stack": _needs_one(bodies.Creation, "template", "template_url"),
    "Update stack": _WHOLE,
    "Patch stack": _schema(bodies.Definition),
    "Preview stack update": _WHOLE,
    "Preview stack patch": _schema(bodies.Definition),
    "Validate template": _WHOLE,
    "List template problems": _WHOLE,
    "Check stack": _action("check", bodies.CheckOptions),
    "Retry stack": _only("retry", NO_OPTIONS),
    "Suspend stack": _action("suspend", bodies.TimingOptions),
    "Resume stack": _action("resume", bodies.TimingOptions),
    "Cancel update": _only("cancel_update", NO_OPTIONS),
    "Cancel without rollback": _only("cancel_without_rollback", NO_OPTIONS),
    "Complete lifecycle": _action("complete_lifecycle", bodies.LifecycleToken, optional=False),
    "Rotate signal keys": _only("rotate_keys", NO_OPTIONS),
    "Lock stack": _action("lock", bodies.LockOptions),
    "Unlock stack": _action("unlock", bodies.Nothing),
    "Repair resources": _action("heal", by_hand.HealRequest),
    "Protect stack or resource": _action("protect", bodies.ProtectionOptions),
    "Unprotect stack or resource": _action("unprotect", bodies.ProtectionOptions),
    "Resize group": _action("resize", group_requests.Resize, group_requests.FollowTemplate, optional=False),
    "Scale out group": _action("scale_out", group_requests.ScaleOut),
    "Scale in group": _action("scale_in", group_requests.ScaleIn),
    "Delete group members": _action("delete_members", group_requests.DeleteMembers, optional=False),
    "Replace group members": _action("replace_members", group_bodies.ReplacedMembers, optional=False),
    "Check resource": _action("check", group_bodies.MemberCheck),
    "Recover resource": _action("recover", group_bodies.RecoverOptions),
    "Signal action": _schema(bodies.ActionSignal),
    "Create node action": _schema(node_actions.NewNodeAction),
    "Approve node action": _schema(node_actions.Decision),
    "Reject node action": _schema(node_actions.Decision),
    "Cancel node action": _schema(bodies.Nothing),
    "Put playbook": _schema(playbooks.PlaybookText),
    "Run playbook": _schema(runs.RunRequest),
    "Approve playbook run": _schema(node_actions.Decision),
    "Reject playbook run": _schema(bodies.Nothing),
    "Take snapshot": _schema(bodies.SnapshotOptions),
    "Put healing policy": _schema(policy.PolicyDocument),
    "Acknowledge scope": _schema(policies.Scope),
    "Approve incident": _schema(policies.ApprovedPlan),
    "Close incident": _schema(policies.Reason),
    "Report health": _REPORTS,
    "Put health reports": _REPORTS,
    "Put health source": _schema(source_document.SourceDocument),
    "Create intake token": _schema(intake.NewToken),
    "Signal resource": _SIGNAL,
    "Signal resource with a signed URL": _SIGNAL,
    "Signal wait condition": _SIGNAL,
    "Mark resource unhealthy": _schema(bodies.HealthMark),
    "Mark several resources unhealthy": _schema(bodies.HealthMarks),
    "Create software config": _schema(bodies.ConfigBody),
    "Create software deployment": _schema(bodies.Deployment),
    "Update software deployment": _schema(bodies.DeploymentChanges),
    "Orchestrate nodes": _schema(bodies.Nothing),
    "Register node": _schema(registration.Registered),
    "Tell of a change at a node": _schema(bodies.Nothing),
}
"""Bodies by the titles of the reference."""

OPTIONAL = frozenset({
    "Patch stack", "Preview stack patch", "Approve node action", "Reject node action", "Cancel node action",
    "Approve playbook run", "Reject playbook run", "Signal resource",
    "Signal resource with a signed URL", "Signal wait condition", "Orchestrate nodes", "Tell of a change at a node",
    "Report health", "Put health reports",
})  # fmt: skip
"""Operations whose body may be left out."""
