"""Schemas of the request bodies, from the validators that check them."""


from heatlite.api import bodies, group_bodies, query
from heatlite.core.json import Json, JsonMap
from heatlite.core.shapes import Shape
from heatlite.features.healing.api import bodies as healing_bodies
from heatlite.features.healing.api import intake, policies
from heatlite.features.healing.intake import source_document
from heatlite.features.healing.rules import policy
from heatlite.features.nodes.api import node_actions, nodes, playbooks
from tools.openapi.schemas import ref

TRUTH: JsonMap = {
    "anyOf": [{"type": "boolean"}, {"type": "string", "pattern": "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"}]
}
"""A flag that may be text, as Heat's clients send it."""
MINUTES: JsonMap = {
    "type": ["integer", "string", "null"],
    "minimum": 0,
    "maximum": query.MAX_INTEGER,
    "pattern": "^(0|[1-9][0-9]{0,8})$",
}
NO_OPTIONS: JsonMap = {"description": "Not read; clients send null or an empty text."}


def _value(validator: Shape) -> JsonMap:
    return {**validator.schema}


def _schema(validator: Shape) -> JsonMap:
    return {"type": "object", **_value(validator)}


def _with(schema: JsonMap, **more: JsonMap) -> JsonMap:
    """Return the schema of an object with further keys."""
    has = schema["properties"]
    assert isinstance(has, dict)
    return {**schema, "properties": {**has, **more}}


def _needs(schema: JsonMap, *alternatives: str, **required: JsonMap) -> JsonMap:
    """Return a schema with further required keys, and one of several."""
    needed: JsonMap = {**_with(schema, **required), "required": [*required]}
    if alternatives:
        given: JsonMap = {"not": {"type": "null"}}
        needed["anyOf"] = [{"required": [name], "properties": {name: given}} for name in alternatives]
    return needed


def _action(name: str, value: JsonMap, optional: bool = True) -> JsonMap:
    """Return the schema of an object with the name of an action as its only key."""
    shown: Json = {"anyOf": [value, {"enum": ["", None]}]} if optional and value is not NO_OPTIONS else value
    return {"type": "object", "properties": {name: shown}, "required": [name], "additionalProperties": False}


_NAME: JsonMap = {"type": "string", "pattern": "^[a-zA-Z][a-zA-Z0-9_.-]{0,254}$"}
_NULL: JsonMap = {"type": "null"}
_FLAG: JsonMap = {"anyOf": [TRUTH, _NULL]}
_UPDATE = _with(_schema(bodies.DEFINITION), disable_rollback=_FLAG, converge=_FLAG, timeout_mins=MINUTES)
_CREATION: JsonMap = {
    **_with(_UPDATE, plan_digest=_NULL, converge=_NULL, adopt_stack_data={"type": ["object", "string", "null"]}),
    "if": {"properties": {"adopt_cloud": {"type": "boolean"}}, "required": ["adopt_cloud"]},
    "then": {"required": ["adopt_stack_data"]},
}
_DECISION = _schema(node_actions.DECISION)
_EMPTY = _schema(node_actions.NOTHING_ELSE)
_PROTECTION = _value(bodies.PROTECTION)
_SIGNAL: JsonMap = {"type": ["object", "null"]}
_MARK: JsonMap = {
    "type": "object",
    "properties": {
        "mark_unhealthy": TRUTH,
        "resource_status_reason": _value(bodies.REASON),
    },
    "required": ["mark_unhealthy"],
    "additionalProperties": False,
}
_MARKED: JsonMap = {
    **_with(_MARK, resource={"type": "string", "minLength": 1}), "required": ["resource", "mark_unhealthy"]
}  # fmt: skip
_MARKS: JsonMap = {"type": "array", "items": _MARKED, "minItems": 1, "maxItems": bodies.MOST_MARKS}
_REPORTS = ref("HealthReports")
_FOLLOW: JsonMap = {**_value(group_bodies.FOLLOW_TEMPLATE), "properties": {"follow_template": {"const": True}}}

BODIES: dict[str, JsonMap] = {
    "Create stack": _needs(_CREATION, "template", "template_url", "adopt_stack_data", stack_name=_NAME),
    "Preview stack": _needs(_CREATION, "template", "template_url", stack_name=_NAME),
    "Update stack": _needs(_UPDATE, "template", "template_url"),
    "Patch stack": _UPDATE,
    "Preview stack update": _needs(_UPDATE, "template", "template_url"),
    "Preview stack patch": _UPDATE,
    "Validate template": _needs(_UPDATE, "template", "template_url"),
    "List template problems": _needs(_UPDATE, "template", "template_url"),
    "Check stack": _action("check", _value(bodies.REPEATED_TIMING)),
    "Retry stack": _action("retry", NO_OPTIONS),
    "Suspend stack": _action("suspend", _value(bodies.TIMING)),
    "Resume stack": _action("resume", _value(bodies.TIMING)),
    "Cancel update": _action("cancel_update", NO_OPTIONS),
    "Cancel without rollback": _action("cancel_without_rollback", NO_OPTIONS),
    "Complete lifecycle": _action("complete_lifecycle", _value(bodies.LIFECYCLE), optional=False),
    "Rotate signal keys": _action("rotate_keys", NO_OPTIONS),
    "Lock stack": _action("lock", _value(bodies.LOCK)),
    "Unlock stack": _action("unlock", {"type": ["null", "object"], "maxProperties": 0}),
    "Repair resources": _action("heal", _value(healing_bodies.HEAL)),
    "Protect stack or resource": _action("protect", _PROTECTION),
    "Unprotect stack or resource": _action("unprotect", _PROTECTION),
    "Resize group": _action(
        "resize", {"anyOf": [_value(group_bodies.RESIZE), _FOLLOW]}, optional=False
    ),
    "Scale out group": _action("scale_out", _value(group_bodies.SCALE_OUT)),
    "Scale in group": _action("scale_in", _value(group_bodies.SCALE_IN)),
    "Delete group members": _action("delete_members", _value(group_bodies.DELETE_MEMBERS), optional=False),
    "Replace group members": _action("replace_members", _value(group_bodies.REPLACE_MEMBERS), optional=False),
    "Check resource": _action("check", _value(group_bodies.CHECK_MEMBERS)),
    "Recover resource": _action("recover", _value(group_bodies.RECOVER)),
    "Signal action": _schema(bodies.ACTION_SIGNAL),
    "Create node action": _schema(node_actions.CREATE),
    "Approve node action": _DECISION,
    "Reject node action": _DECISION,
    "Cancel node action": _EMPTY,
    "Put playbook": _schema(playbooks.PLAYBOOK),
    "Run playbook": _schema(playbooks.RUN),
    "Approve playbook run": _DECISION,
    "Reject playbook run": _EMPTY,
    "Take snapshot": {"type": "object", "properties": {"name": _value(bodies.NAME)}},
    "Put healing policy": _schema(policy.SCHEMA),
    "Acknowledge scope": _schema(policies.SCOPE),
    "Approve incident": _schema(policies.DIGEST),
    "Close incident": _schema(policies.REASON),
    "Report health": _REPORTS,
    "Put health reports": _REPORTS,
    "Put health source": _schema(source_document.SCHEMA),
    "Create intake token": _schema(intake.TOKEN),
    "Signal resource": _SIGNAL,
    "Signal resource with a signed URL": _SIGNAL,
    "Signal wait condition": _SIGNAL,
    "Mark resource unhealthy": _MARK,
    "Mark several resources unhealthy": _with(_schema(bodies.MARKS), marks=_MARKS),
    "Create software config": _schema(bodies.SOFTWARE_CONFIG),
    "Create software deployment": _schema(bodies.DEPLOYMENT),
    "Update software deployment": _schema(bodies.DEPLOYMENT_CHANGES),
    "Orchestrate nodes": _schema(nodes.NOTHING),
    "Register node": _schema(nodes.REGISTRATION),
    "Tell of a change at a node": _schema(nodes.NOTHING),
}
"""Bodies by the titles of the reference."""

OPTIONAL = frozenset({
    "Patch stack", "Preview stack patch", "Approve node action", "Reject node action", "Cancel node action",
    "Approve playbook run", "Reject playbook run", "Signal resource",
    "Signal resource with a signed URL", "Signal wait condition", "Orchestrate nodes", "Tell of a change at a node",
    "Report health", "Put health reports",
})  # fmt: skip
"""Operations whose body may be left out."""
