"""Schemas of the request bodies, from the structs and documents that check them."""


from heatlite.api.wire import bodies, group_bodies, scheduled_bodies, stack_bodies
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.core.wire import guards, locks
from heatlite.engine.state import group_requests
from heatlite.features.approvals.api import handlers as decisions
from heatlite.features.change_policy import document
from heatlite.features.drift import accepting, reverting
from heatlite.features.guards.bodies import GuardKeys
from heatlite.features.healing import by_hand
from heatlite.features.healing.api import policies, sources
from heatlite.features.healing.intake import source_document
from heatlite.features.healing.rules import policy
from heatlite.features.nodes import playbooks as runs
from heatlite.features.nodes.agents import registration
from heatlite.features.nodes.api import node_actions, playbooks
from heatlite.features.ownership import bodies as ownership
from heatlite.features.parameter_sources.bodies import SourceKeys
from heatlite.features.revisions import undoing
from heatlite.features.schedules.api import bodies as schedules
from heatlite.features.schedules.api import expiry
from tools.openapi.schemas import ref
from tools.openapi.structs import schema

NO_OPTIONS: JsonMap = {"description": "Not read; clients send null or an empty text."}


def _action(name: str, *kinds: type, optional: bool = True) -> JsonMap:
    """Return the schema of an object with the name of an action as its only key."""
    values: list[Json] = [schema(kind) for kind in kinds]
    if optional:
        values.append({"enum": ["", None]})
    value: JsonMap = {"anyOf": values} if len(values) > 1 else schema(kinds[0])
    return _only(name, value)


def _only(name: str, value: JsonMap) -> JsonMap:
    return {"type": "object", "properties": {name: value}, "required": [name], "additionalProperties": False}


def _definition(kind: type, *alternatives: str) -> JsonMap:
    """Return the schema of the definition of a stack, with the keys of features.

    One of the alternatives is not null.
    """
    given: JsonMap = {"not": {"type": "null"}}
    parts = [as_map(schema(one)["properties"]) for one in (kind, SourceKeys, GuardKeys)]
    found = {**schema(kind), "properties": {name: field for part in parts for name, field in part.items()}}
    needs: list[Json] = [{"required": [one], "properties": {one: given}} for one in alternatives]
    return {**found, "anyOf": needs} if needs else found


_SIGNAL: JsonMap = {"type": ["object", "null"]}
_REPORTS = ref("HealthReports")
_WHOLE = _definition(stack_bodies.Definition, "template", "template_url")
_CHANGE = _definition(stack_bodies.Definition)

BODIES: dict[str, JsonMap] = {
    "Create stack": _definition(stack_bodies.Creation, "template", "template_url", "adopt_stack_data"),
    "Preview stack": _definition(stack_bodies.Creation, "template", "template_url"),
    "Update stack": _WHOLE,
    "Patch stack": _CHANGE,
    "Preview stack update": _WHOLE,
    "Preview stack patch": _CHANGE,
    "Validate template": _WHOLE,
    "List template problems": _WHOLE,
    "Check stack": _action("check", bodies.CheckOptions),
    "Retry stack": _only("retry", NO_OPTIONS),
    "Suspend stack": _action("suspend", bodies.TimingOptions),
    "Resume stack": _action("resume", bodies.TimingOptions),
    "Schedule update": _action("update", scheduled_bodies.ScheduledUpdate, optional=False),
    "Schedule delete": _action("delete", scheduled_bodies.ScheduledDelete, optional=False),
    "Cancel update": _only("cancel_update", NO_OPTIONS),
    "Cancel without rollback": _only("cancel_without_rollback", NO_OPTIONS),
    "End bake": _action("end_bake", bodies.EndBake),
    "Complete lifecycle": _action("complete_lifecycle", bodies.LifecycleToken, optional=False),
    "Rotate signal keys": _only("rotate_keys", NO_OPTIONS),
    "Lock stack": _action("lock", locks.LockOptions),
    "Unlock stack": _action("unlock", bodies.Nothing),
    "Repair resources": _action("heal", by_hand.HealRequest),
    "Put back drift": _action("revert_drift", reverting.RevertRequest),
    "Accept drift": _action("accept_drift", accepting.AcceptRequest),
    "Import objects": _action("import", ownership.ImportRequest, optional=False),
    "Detach objects": _action("detach", ownership.DetachRequest, optional=False),
    "Move resources": _action("move", ownership.MoveRequest, optional=False),
    "Undo": _action("undo", undoing.UndoRequest),
    "Protect stack or resource": _action("protect", bodies.ProtectionOptions),
    "Unprotect stack or resource": _action("unprotect", bodies.ProtectionOptions),
    "Resize group": _action(
        "resize", group_requests.ResizeRequest, group_requests.NewLimits, group_requests.FollowTemplate, optional=False
    ),
    "Scale out group": _action("scale_out", group_requests.ScaleOut),
    "Scale in group": _action("scale_in", group_requests.ScaleIn),
    "Delete group members": _action("delete_members", group_requests.DeleteMembers, optional=False),
    "Let members leave a group": _action("leave", group_requests.Leave, optional=False),
    "Let objects join a group": _action("join", group_requests.JoinRequest, optional=False),
    "Attach policy to group": _action("attach_policy", group_requests.AttachPolicy, optional=False),
    "Update policy of group": _action("update_policy", group_requests.UpdatePolicy, optional=False),
    "Detach policy from group": _action("detach_policy", group_requests.DetachPolicy, optional=False),
    "Replace group members": _action("replace_members", group_bodies.ReplacedMembers, optional=False),
    "Check resource": _action("check", group_bodies.MemberCheck),
    "Recover resource": _action("recover", group_bodies.RecoverOptions),
    "Signal action": schema(bodies.ActionSignal),
    "Create node action": schema(node_actions.NewNodeAction),
    "Approve node action": schema(node_actions.NodeDecision),
    "Reject node action": schema(node_actions.NodeDecision),
    "Cancel node action": schema(bodies.Nothing),
    "Put playbook": schema(playbooks.PlaybookText),
    "Run playbook": schema(runs.RunRequest),
    "Approve playbook run": schema(node_actions.NodeDecision),
    "Reject playbook run": schema(bodies.Nothing),
    "Create schedule": schema(schedules.ScheduleBody),
    "Put schedule": schema(schedules.ScheduleBody),
    "Put expiry": schema(expiry.ExpiryBody),
    "Take snapshot": schema(bodies.SnapshotOptions),
    "Restore snapshot": schema(guards.Guarded),
    "Approve": schema(decisions.Approval),
    "Reject": schema(decisions.Rejection),
    "Put change policy": schema(document.ProjectDocument),
    "Put change policy of a stack": schema(document.StackDocument),
    "Put healing policy": schema(policy.HealingPolicyDocument),
    "Acknowledge scope": schema(policies.SuspendedScope),
    "Approve incident": schema(policies.ApprovedPlan),
    "Close incident": schema(policies.ClosureReason),
    "Report health": _REPORTS,
    "Put health reports": _REPORTS,
    "Put health source": schema(source_document.SourceDocument),
    "Create intake token": schema(sources.NewToken),
    "Signal resource": _SIGNAL,
    "Signal resource with a signed URL": _SIGNAL,
    "Signal wait condition": _SIGNAL,
    "Mark resource unhealthy": schema(bodies.HealthMark),
    "Mark several resources unhealthy": schema(bodies.HealthMarks),
    "Create software config": schema(bodies.ConfigBody),
    "Create software deployment": schema(bodies.Deployment),
    "Update software deployment": schema(bodies.DeploymentChanges),
    "Orchestrate nodes": schema(bodies.Nothing),
    "Register node": schema(registration.Registered),
    "Tell of a change at a node": schema(bodies.Nothing),
}
"""Bodies by the titles of the reference."""

OPTIONAL = frozenset({
    "Patch stack", "Preview stack patch", "Approve node action", "Reject node action", "Cancel node action",
    "Approve playbook run", "Reject playbook run", "Signal resource",
    "Signal resource with a signed URL", "Signal wait condition", "Orchestrate nodes", "Tell of a change at a node",
    "Report health", "Put health reports",
})  # fmt: skip
"""Operations whose body may be left out."""
