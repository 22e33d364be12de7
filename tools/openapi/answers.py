"""Schemas of the answers, by the titles of the reference."""

from heatlite.core.json import JsonMap
from tools.openapi.schemas import (
    ANY,
    COUNT,
    LINKS,
    MAP,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    TIME,
    TIME_OR_NULL,
    by_name,
    listed,
    or_null,
    record,
    ref,
)

_PAGED: JsonMap = {"links": LINKS}
_CHANGES = record({"plan": ref("Plan")}, resource_changes=ref("ResourceChanges"))
_NODE_ACTION_SHOWN = record(node_action=ref("NodeAction"))
_ACTION_SHOWN = record(action=ref("Action"))
_CONFIG_SHOWN = record(software_config=ref("SoftwareConfig"))
_DEPLOYMENT_SHOWN = record(software_deployment=ref("SoftwareDeployment"))
_EVENTS = record(events=listed(ref("Event")))
_PLAYBOOK_SHOWN = record(node_playbook=ref("Playbook"))
_SCHEDULE_SHOWN = record(schedule=ref("Schedule"))
_INCIDENT_SHOWN = record(incident=ref("IncidentDetails"))
_SOURCE_SHOWN = record(source=ref("HealthSource"))
_NODE_ACTIONS = record(_PAGED, node_actions=listed(ref("NodeActionSummary")))

ANSWERS: dict[str, JsonMap] = {
    "List versions": ref("Versions"),
    "List versions by name": ref("Versions"),
    "Show version 1": ref("Versions"),
    "Create stack": record(stack=record(id=TEXT, links=LINKS)),
    "Preview stack": record({"plan": ref("Plan")}, stack=ref("StackPreview")),
    "List stacks": record({**_PAGED, "count": COUNT}, stacks=listed(ref("StackSummary"))),
    "Show counts": record(
        counts=record(stacks=COUNT, failed=COUNT, in_progress=COUNT, locked=COUNT, unhealthy=COUNT, waiting=COUNT)
    ),
    "List stacks in detail": record(stacks=listed(ref("StackSummary"))),
    "Show stack": record(stack=ref("Stack")),
    "Update stack": ref("Accepted"),
    "Patch stack": ref("Accepted"),
    "Preview stack update": _CHANGES,
    "Preview stack patch": {"anyOf": [_CHANGES, record(plan=ref("Plan"))]},
    "Abandon stack": ref("StackRecord"),
    "Export stack": ref("StackRecord"),
    "Show stack template": MAP,
    "Show stack environment": MAP,
    "Show stack files": by_name(TEXT),
    "List outputs": record(outputs=listed(record(output_key=TEXT, description=TEXT))),
    "Show output": record(output=ref("Output")),
    "Detach objects": record(detached=by_name(record(type=TEXT, id=TEXT))),
    "List actions": record(_PAGED, actions=listed(ref("Action"))),
    "Show action": _ACTION_SHOWN,
    "Signal action": _ACTION_SHOWN,
    "Show action history": record(history=listed(ref("Transition"))),
    "List node actions": _NODE_ACTIONS,
    "List node actions of a stack": _NODE_ACTIONS,
    "Create node action": _NODE_ACTION_SHOWN,
    "Show node action": _NODE_ACTION_SHOWN,
    "Approve node action": _NODE_ACTION_SHOWN,
    "Reject node action": _NODE_ACTION_SHOWN,
    "Cancel node action": _NODE_ACTION_SHOWN,
    "List playbooks": record(_PAGED, node_playbooks=listed(ref("PlaybookSummary"))),
    "Show playbook": _PLAYBOOK_SHOWN,
    "Put playbook": _PLAYBOOK_SHOWN,
    "Run playbook": {"anyOf": [_ACTION_SHOWN, ref("PlaybookPlan")]},
    "Approve playbook run": _ACTION_SHOWN,
    "Reject playbook run": _ACTION_SHOWN,
    "Take snapshot": ref("Snapshot"),
    "List snapshots": record(snapshots=listed(ref("Snapshot"))),
    "Show snapshot": record(snapshot=ref("Snapshot")),
    "Restore snapshot": ref("Accepted"),
    "Show lock": record(
        {"dropped": record(count=COUNT, last_time=TIME)},
        lock=or_null(ref("Lock")),
        suppressed=listed(ref("SuppressedRequest")),
    ),
    "Show why": ref("Why"),
    "Replay suppressed request": ANY,
    "List schedules": record(_PAGED, schedules=listed(ref("Upcoming"))),
    "List schedules of a stack": record(schedules=listed(ref("Schedule"))),
    "Create schedule": _SCHEDULE_SHOWN,
    "Show schedule": _SCHEDULE_SHOWN,
    "Put schedule": _SCHEDULE_SHOWN,
    "Show expiry": record(expiry=ref("Expiry")),
    "Put expiry": record(expiry=ref("Expiry")),
    "List approvals": record(_PAGED, approvals=listed(ref("Approval"))),
    "Show approval": record(approval=ref("ApprovalDetails")),
    "Approve": record(approval=ref("Approval")),
    "Reject": record(approval=ref("Approval")),
    "Show change policy": ref("ChangePolicy"),
    "Put change policy": ref("ChangePolicy"),
    "Show change policy of a stack": ref("ChangePolicy"),
    "Put change policy of a stack": ref("ChangePolicy"),
    "List healing policies": record(_PAGED, healing_policies=listed(ref("HealingPolicy"))),
    "Show healing": ref("Healing"),
    "Put healing policy": ref("Healing"),
    "Acknowledge scope": ref("Healing"),
    "List sources": record(sources=listed(ref("ShownSource"))),
    "List readers": record(readers=listed(ref("ShownReader"))),
    "List revisions": record(revisions=listed(ref("ListedRevision"))),
    "Show revision": record(revision=ref("ShownRevision")),
    "Compare revisions": record(changes=listed(ref("DefinitionChange"))),
    "List drift": record(_PAGED, drift=ref("DriftList")),
    "Show quota": record(quota=ref("Quota")),
    "Show drift": record(_PAGED, drift=ref("DriftList")),
    "List incidents": record(_PAGED, incidents=listed(ref("Incident"))),
    "Show incident": _INCIDENT_SHOWN,
    "Approve incident": _INCIDENT_SHOWN,
    "Close incident": _INCIDENT_SHOWN,
    "Report health": ref("ReportAnswer"),
    "Put health reports": ref("ReportAnswer"),
    "Show health source": _SOURCE_SHOWN,
    "Put health source": _SOURCE_SHOWN,
    "List access keys": record(access_keys=listed(ref("AccessKey"))),
    "Create access key": record(access_key=ref("NewAccessKey")),
    "List intake tokens": record(health_tokens=listed(ref("IntakeToken"))),
    "Create intake token": record(health_token=ref("NewIntakeToken")),
    "Find resources": record(resources=listed(ref("FoundResource"))),
    "List resources": record(_PAGED, resources=listed(ref("Resource"))),
    "Show resource": record(resource=ref("Resource")),
    "Show resource metadata": record(metadata=MAP),
    "Signal wait condition": record(resource=TEXT, metadata=MAP),
    "List events": _EVENTS,
    "List resource events": _EVENTS,
    "Show event": record(event=ref("EventDetails")),
    "List software configs": record(software_configs=listed(ref("SoftwareConfigSummary"))),
    "Create software config": _CONFIG_SHOWN,
    "Show software config": _CONFIG_SHOWN,
    "List software deployments": record(software_deployments=listed(ref("SoftwareDeployment"))),
    "Create software deployment": _DEPLOYMENT_SHOWN,
    "Show software deployment": _DEPLOYMENT_SHOWN,
    "Update software deployment": _DEPLOYMENT_SHOWN,
    "Show software of a server": record(metadata=listed(ref("SoftwareConfig"))),
    "List nodes": record(
        nodes=listed(ref("Node")),
        orchestration=or_null(
            record(due_at=TIME_OR_NULL, started_at=TIME_OR_NULL, ended_at=TIME_OR_NULL, report=or_null(MAP))
        ),
        refused=listed(record(name=TEXT, stack_id=TEXT, address=TEXT, reason=TEXT, time=TIME)),
    ),
    "Register node": record(node=ref("Node")),
    "Validate template": {
        "anyOf": [ref("TemplateDescription"), record(problems=listed(ref("Problem")))],
        "description": "With `all_errors` the problems.",
    },
    "List template versions": record(
        template_versions=listed(record(version=TEXT, type=TEXT, aliases=TEXTS))
    ),
    "List template functions": record(template_functions=listed(record(functions=TEXT, description=TEXT))),
    "List resource types": record(
        resource_types={"anyOf": [TEXTS, listed(record(resource_type=TEXT, description=TEXT))]}
    ),
    "Show resource type": ref("ResourceType"),
    "Show resource type template": MAP,
    "Show build information": record(
        api=record(revision=TEXT), engine=record(revision=TEXT), cloud=TEXT_OR_NULL, user=TEXT_OR_NULL
    ),
    "Show API description": MAP,
    "List audit log": record(_PAGED, audit=listed(ref("AuditRecord"))),
    "List services": record(services=listed(ref("Service"))),
}
"""Answers with a body. Operations on members answer with the action; stack actions, signals and marks with null."""
