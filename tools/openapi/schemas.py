"""Schemas of the parts of answers (JSON Schema 2020-12).

Objects are open: later versions may add keys. A test closes them and compares them with the samples of the reference.
"""

from heatlite.core.actions.repairs import RepairPart
from heatlite.core.clouds import CloudIdentity
from heatlite.core.json import Json, JsonMap
from heatlite.core.wire import actions, events, locks, resources, stacks, why
from heatlite.features.approvals.store.records import ApprovalState, Subject
from heatlite.features.change_policy.document import PolicyKeys, PolicyOrigin
from heatlite.features.drift.states import DriftState
from heatlite.features.guards import wire as guards
from heatlite.features.healing.terms import Brake, ClosedAs, IncidentState
from heatlite.features.nodes.states import NodeActionState, NodeState, Requester, TransitionOrigin
from heatlite.features.parameter_sources import wire as sources
from heatlite.features.quota.assessment import QuotaState
from heatlite.features.revisions import wire as revisions
from heatlite.features.rules import wire as findings
from heatlite.features.schedules.expiry.state import ExpiryState, Then
from heatlite.store.audit import AuditOutcome
from tools.openapi.structs import answer

ANY: JsonMap = {}
TEXT: JsonMap = {"type": "string"}
FLAG: JsonMap = {"type": "boolean"}
COUNT: JsonMap = {"type": "integer", "minimum": 0}
NUMBER: JsonMap = {"type": "number"}
MAP: JsonMap = {"type": "object"}
TIME: JsonMap = {"type": "string", "format": "date-time"}
NULL: JsonMap = {"type": "null"}


def record(optional: JsonMap | None = None, /, **fields: Json) -> JsonMap:
    """Return the schema of an object with these keys, and optional ones."""
    return {"type": "object", "properties": {**fields, **(optional or {})}, "required": [*fields]}


def named(names: str, schema: JsonMap) -> JsonMap:
    """Return fields with one schema, for `record`."""
    return dict.fromkeys(names.split(), schema)


def listed(item: JsonMap) -> JsonMap:
    """Return the schema of a list."""
    return {"type": "array", "items": item}


def by_name(value: JsonMap) -> JsonMap:
    """Return the schema of an object with names of any kind."""
    return {"type": "object", "additionalProperties": value}


def or_null(schema: JsonMap) -> JsonMap:
    """Return the schema of a value that may be null."""
    if isinstance(schema.get("type"), str) and "enum" not in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, NULL]}


def one_of(words: type) -> JsonMap:
    """Return the schema of the words of an enumeration."""
    return {"type": "string", "enum": [str(word.value) for word in words]}  # type: ignore[attr-defined]


def ref(name: str) -> JsonMap:
    """Return a reference to a schema of `SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def widened(schema: JsonMap, optional: JsonMap | None = None, /, **fields: Json) -> JsonMap:
    """Return the schema of an object with further keys."""
    has, needs = schema["properties"], schema["required"]
    assert isinstance(has, dict) and isinstance(needs, list)
    return {**schema, "properties": {**has, **fields, **(optional or {})}, "required": [*needs, *fields]}


TEXT_OR_NULL, TIME_OR_NULL = or_null(TEXT), or_null(TIME)
TEXTS, LINKS = listed(TEXT), listed(ref("Link"))
IDENTITY = record(tenant=TEXT, stack_name=TEXT, stack_id=TEXT, path=TEXT)

_NEXT_SCHEDULE = record(**named("name do", TEXT), next_at=TIME)
_OF_FEATURES: JsonMap = {
    "approvals": COUNT,
    "drift": ref("StackDrift"),
    "expiry": or_null(ref("Expiry")),
    "guard": answer(guards.StackGuard),
    "next_schedule": _NEXT_SCHEDULE,
}
_DESCRIBED = answer(stacks.Described)
_STATE = named("physical_resource_id resource_status resource_status_reason", TEXT)
_RESOURCE = widened(
    answer(resources.Resource, resources.HealthOfResource, resources.ResourceDetails),
    {"drift": ref("ResourceDrift")},
)
_PREVIEW_RESOURCE = record(
    {"properties": ANY, "parent_resource": TEXT, "nested_stack_id": TEXT},
    **named("resource_name resource_type resource_action stack_name description", TEXT),
    **_STATE,
    resource_identity=IDENTITY,
    stack_identity=IDENTITY,
    required_by=TEXTS,
    creation_time=TIME,
    updated_time=TIME,
    metadata=MAP,
    attributes=MAP,
)
_PLANNED = record(
    {"health": ref("ResourceHealth"), "selection": one_of(RepairPart), "from": TEXT},
    **named("resource_name resource_type physical_resource_id action", TEXT),
    path=TEXTS,
    after=TEXTS,
    cause=TEXT_OR_NULL,
    order=TEXT_OR_NULL,
    properties=listed(record(name=TEXT, old=ANY, new=ANY, known_later=FLAG, replaces=FLAG, because_of=TEXTS)),
    metadata_differs=FLAG,
    protected=FLAG,
)
_STACK_RECORD = record(
    **named("name id action status project_id", TEXT),
    template=MAP,
    environment=MAP,
    files=by_name(TEXT),
    stack_user_project_id=TEXT_OR_NULL,
    tags=TEXTS,
    resources=by_name(MAP),
    stack_protection=or_null(MAP),
    cloud=or_null(ref("Cloud")),
)
_CONFIG_SUMMARY = record(**named("id name group", TEXT), creation_time=TIME)
_NODE_ACTION = record(
    **named("id kind node node_id stack error", TEXT),
    state=one_of(NodeActionState),
    requester=one_of(Requester),
    **named("requested_by approved_by run stage deployment", TEXT_OR_NULL),
    cancel_asked=FLAG,
    attempts=COUNT,
    created_at=TIME,
    **named("updated_at approved_at sent_at scheduled_at started_at finished_at", TIME_OR_NULL),
    links=LINKS,
)
_PLAYBOOK = record(name=TEXT, created_by=TEXT_OR_NULL, created_at=TIME, updated_at=TIME_OR_NULL, links=LINKS)
_LAST = or_null(
    record(
        **named("due at", TIME),
        result={"type": "string", "enum": ["started", "refused", "skipped", "missed"]},
        **named("code action_id", TEXT_OR_NULL),
    )
)
_APPROVAL = record(
    subject=one_of(Subject),
    state=one_of(ApprovalState),
    nodes=TEXTS,
    because=TEXTS,
    may_decide=FLAG,
    requested_at=TIME,
    **named("id stack_name digest requested_by reason", TEXT),
    **named("stack_id resource decided_by action_id incident_id node_action_id replaced_by", TEXT_OR_NULL),
    **named("expires_at decided_at", TIME_OR_NULL),
)
_POLICY_VALUE = record(value={"type": ["string", "integer", "boolean"]}, **{"from": one_of(PolicyOrigin)})
_POLICY_GUARD = record(value=or_null(MAP), **{"from": one_of(PolicyOrigin)})
_POLICY_GRANTS = record(
    value=listed(record(project=TEXT, outputs=listed(TEXT))), **{"from": one_of(PolicyOrigin)}
)
_POLICY_RULES = record(
    value=listed(record(name=TEXT, **{"from": one_of(PolicyOrigin)})), **{"from": one_of(PolicyOrigin)}
)
_INCIDENT = record(
    **named("id source stack_id root_stack_id path member scope summary", TEXT),
    state=one_of(IncidentState),
    reason=or_null(one_of(Brake)),
    also=listed(one_of(Brake)),
    **named("physical_resource_id action_id plan_digest", TEXT_OR_NULL),
    step=COUNT,
    attempt=COUNT,
    due=TIME_OR_NULL,
    closed_at=TIME_OR_NULL,
    created_at=TIME,
    closed_as=or_null(one_of(ClosedAs)),
)
_TOKEN = record(
    **named("id name created_by", TEXT),
    source=TEXT_OR_NULL,
    created_at=TIME,
    expires_at=TIME_OR_NULL,
    last_used_at=TIME_OR_NULL,
)
_ACCESS_KEY = record(**named("id project_id user", TEXT), roles=listed(TEXT), created_at=TIME)
_NUMBER_OR_NULL = or_null({"type": "integer"})
_QUOTA_NOW: JsonMap = {
    "kind": TEXT, "limit": _NUMBER_OR_NULL, "used": _NUMBER_OR_NULL, "reserved": COUNT, "holders": TEXTS,
}  # fmt: skip
_QUOTA_KIND = record(**_QUOTA_NOW, needed=COUNT, known=FLAG, short=COUNT)
_QUOTA = {"state": one_of(QuotaState), "read_at": TIME_OR_NULL, "causes": by_name(TEXT)}

SCHEMAS: JsonMap = {
    "Quota": record(**_QUOTA, kinds=listed(record(**_QUOTA_NOW))),
    "PlanQuota": record(**_QUOTA, kinds=listed(_QUOTA_KIND)),
    "Link": record(href=TEXT, rel=TEXT),
    "Fault": record(
        code={"type": "integer"},
        title=TEXT,
        explanation=TEXT,
        error=record(
            {
                "shortages": listed(_QUOTA_KIND),
                "readers": listed(answer(sources.AffectedReader)),
                "others": COUNT,
                "holder": answer(why.Holder),
                "way_out": listed(answer(why.WayOut)),
            },
            type=TEXT,
            message=TEXT,
            traceback=NULL,
        ),
    ),
    "Accepted": record(**named("message code title", TEXT)),
    "HealthReports": {"anyOf": [MAP, listed(ANY)]},
    "Cloud": answer(CloudIdentity),
    "StackDrift": record(drifted=COUNT, unknown=COUNT, checked_at=TIME_OR_NULL),
    "ResourceDrift": record(
        state=one_of(DriftState), since=TIME_OR_NULL, checked_at=TIME_OR_NULL, differences=COUNT
    ),
    "DriftList": record(
        **named("drifted in_sync unknown not_checked ignored", COUNT),
        checked_at=TIME_OR_NULL,
        resources=listed(
            record(
                **named("id resource_name path stack_id root_stack_id resource_type", TEXT),
                physical_resource_id=TEXT_OR_NULL,
                state=one_of(DriftState),
                **named("since unknown_since checked_at", TIME_OR_NULL),
                ignored=COUNT,
                truncated=FLAG,
                differences=listed(record({"stored": ANY, "live": ANY, "ignored": FLAG}, path=TEXT)),
            )
        ),
    ),
    "ResourceHealth": answer(resources.ResourceHealth),
    "Output": record({"output_error": TEXT}, output_key=TEXT, description=TEXT, output_value=ANY),
    "StackSummary": widened(answer(stacks.ListedStack), _OF_FEATURES),
    "Stack": widened(
        answer(stacks.Described, stacks.StackState), {"outputs": listed(ref("Output")), **_OF_FEATURES}
    ),
    "StackPreview": widened(_DESCRIBED, resources=listed(ref("PreviewTree"))),
    "StackRecord": _STACK_RECORD,
    "Resource": _RESOURCE,
    "FoundResource": widened(
        _RESOURCE, owned=FLAG, **named("stack_name stack_id root_stack_name root_stack_id path", TEXT)
    ),
    "PreviewResource": _PREVIEW_RESOURCE,
    "PreviewTree": {"anyOf": [ref("PreviewResource"), listed(ref("PreviewTree"))]},
    "ResourceChanges": record(
        **dict.fromkeys(("unchanged", "updated", "replaced", "added", "deleted"), listed(ref("PreviewResource")))
    ),
    "Plan": record(
        {
            **named("template_patch parameters_patch environment_patch unverified omitted", listed(MAP)),
            "digest": TEXT,
            "quota": ref("PlanQuota"),
            "approval": record(needed=FLAG, because=listed(TEXT)),
            "rules": listed(answer(findings.Finding)),
            "sources": listed(answer(sources.SourceChange)),
            "readers": listed(answer(sources.AffectedReader)),
            "guard": {"type": "object"},
            "template": TEXT,
            "files": MAP,
            "to_stack": MAP,
            "after": listed(_PLANNED),
            "restricted": answer(stacks.Restricted),
        },
        resources=listed(_PLANNED),
    ),
    "Event": answer(events.Event),
    "EventDetails": answer(events.Event, events.EventDetails),
    "BegunAction": answer(actions.BegunAction),
    "Action": answer(actions.Action),
    "Transition": answer(actions.Transition),
    "Snapshot": record(
        {"data_error": TEXT},
        **named("id action status status_reason", TEXT),
        name=TEXT_OR_NULL,
        data=or_null(ref("StackRecord")),
        creation_time=TIME,
    ),
    "Why": answer(why.Why),
    "Fact": answer(why.Fact),
    "WayOut": answer(why.WayOut),
    "ListedRevision": answer(revisions.ListedRevision),
    "ShownRevision": answer(revisions.ShownRevision),
    "DefinitionChange": answer(revisions.DefinitionChange),
    "ShownSource": answer(sources.ShownSource),
    "ShownReader": answer(sources.ShownReader),
    "Lock": answer(locks.Lock),
    "SuppressedRequest": answer(locks.SuppressedRequest),
    "SoftwareConfigSummary": widened(_CONFIG_SUMMARY, {"project": TEXT}),
    "SoftwareConfig": widened(_CONFIG_SUMMARY, config=ANY, inputs=listed(MAP), outputs=listed(MAP), options=MAP),
    "SoftwareDeployment": record(
        {"updated_time": TIME, "values_error": TEXT},
        **named("id server_id config_id", TEXT),
        status_reason=TEXT_OR_NULL,
        input_values=or_null(MAP),
        output_values=or_null(MAP),
        action=TEXT_OR_NULL,
        status=TEXT_OR_NULL,
        creation_time=TIME,
    ),
    "Node": record(
        **named("id name stack_id url agent reason", TEXT),
        state=one_of(NodeState),
        kinds=TEXTS,
        deployments=FLAG,
        registered_at=TIME,
        seen_at=TIME_OR_NULL,
        unfinished=by_name(COUNT),
    ),
    "NodeActionSummary": _NODE_ACTION,
    "NodeAction": widened(
        _NODE_ACTION,
        **named("args progress outputs", MAP),
        digest=TEXT,
        depended_by=TEXTS,
        history=listed(
            record(
                time=TIME,
                state=one_of(NodeActionState),
                origin=one_of(TransitionOrigin),
                user=TEXT_OR_NULL,
                reason=TEXT,
            )
        ),
    ),
    "PlaybookSummary": _PLAYBOOK,
    "Playbook": widened(_PLAYBOOK, document=TEXT),
    "PlaybookPlan": record(
        stages=listed(
            record(
                name=TEXT,
                kind=TEXT,
                at_once={"type": ["integer", "string"]},
                nodes=listed(record(id=TEXT, name=TEXT, state=one_of(NodeState))),
            )
        ),
        digest=TEXT,
    ),
    "Approval": _APPROVAL,
    "ApprovalDetails": widened(_APPROVAL, content=MAP),
    "ChangePolicy": record(
        change_policy=or_null(MAP),
        version=COUNT,
        updated_by=TEXT_OR_NULL,
        updated_at=TIME_OR_NULL,
        effective=record(
            **named(" ".join(PolicyKeys.__struct_fields__), _POLICY_VALUE), guard=_POLICY_GUARD,
            grants=_POLICY_GRANTS, rules=_POLICY_RULES,
        ),
    ),
    "HealingPolicy": record(
        policy=MAP, version=COUNT, updated_by=TEXT, updated_at=TIME, **named("stack_id stack_name", TEXT)
    ),
    "Healing": record(
        policy=or_null(MAP),
        version=COUNT,
        updated_by=TEXT_OR_NULL,
        updated_at=TIME_OR_NULL,
        scopes=listed(
            record(
                scope=TEXT,
                **named("members unhealthy allowed failures repairs_in_period", COUNT),
                breaker={"type": "string", "enum": ["closed", "open"]},
                state={"type": "string", "enum": ["RUNNING", "SUSPENDED"]},
                cooldown_until=TIME_OR_NULL,
                next_window=TIME_OR_NULL,
            )
        ),
        incidents=listed(ref("Incident")),
    ),
    "Incident": _INCIDENT,
    "IncidentDetails": widened(
        _INCIDENT,
        alerts=listed(record(key=TEXT, summary=TEXT, **named("starts_at first_seen last_seen", TIME), reports=COUNT)),
        history=listed(record(**{"time": TIME, "from": TEXT, "to": TEXT, "reason": TEXT})),
    ),
    "Schedule": record(
        do=MAP,
        enabled=FLAG,
        window=COUNT,
        last=_LAST,
        **named("id name cron timezone created_by", TEXT),
        **named("starts_at ends_at next_at", TIME_OR_NULL),
    ),
    "Expiry": record(
        expires_at=TIME,
        then=one_of(Then),
        warn_before=listed(COUNT),
        state=one_of(ExpiryState),
        code=TEXT_OR_NULL,
        set_by=TEXT,
    ),
    "Upcoming": record(
        kind={"type": "string", "enum": ["action", "expiry", "lock_expiry", "schedule", "series"]},
        do=MAP,
        enabled=FLAG,
        last=_LAST,
        next_at=TIME_OR_NULL,
        **named("id name stack_name stack_id owner", TEXT),
        **named("cron timezone", TEXT_OR_NULL),
    ),
    "AccessKey": _ACCESS_KEY,
    "NewAccessKey": widened(_ACCESS_KEY, secret=TEXT),
    "IntakeToken": _TOKEN,
    "NewIntakeToken": widened(_TOKEN, token=TEXT),
    "ReportAnswer": record(
        source=TEXT,
        received=COUNT,
        truncated=COUNT,
        counts=by_name(COUNT),
        results=listed(
            record(
                index=COUNT,
                **named("key result detail", TEXT),
                incident=TEXT_OR_NULL,
                target=or_null(record(**named("stack_name stack_id path", TEXT), physical_resource_id=TEXT_OR_NULL)),
            )
        ),
    ),
    "HealthSource": record(
        name=TEXT,
        format=TEXT,
        document=or_null(MAP),
        last_report_at=TIME_OR_NULL,
        storm_since=TIME_OR_NULL,
        blind_since=TIME_OR_NULL,
        results=listed(MAP),
    ),
    "AuditRecord": record(
        **named("request_id method path operation reason", TEXT),
        time=TIME,
        last_time=TIME,
        times=COUNT,
        **named("user user_id address stack_id stack_name resource_name target", TEXT_OR_NULL),
        **named("plan_digest action_id approval_id", TEXT_OR_NULL),
        outcome=one_of(AuditOutcome),
        status=or_null(COUNT),
    ),
    "Versions": record(versions=listed(record(id=TEXT, status=TEXT, links=LINKS))),
    "Problem": record(
        **named("file type path message", TEXT),
        line=or_null(COUNT),
        column=or_null(COUNT),
        severity={"type": "string", "enum": ["error", "warning"]},
        hint=TEXT_OR_NULL,
    ),
    "TemplateDescription": record(
        {"NestedParameters": MAP, "ParameterGroups": listed(MAP), "rules": listed(answer(findings.Finding))},
        Description=TEXT,
        Parameters=by_name(MAP),
        Environment=MAP,
    ),
    "ResourceType": record(
        {"description": TEXT}, resource_type=TEXT, properties=by_name(MAP), attributes=by_name(MAP), support_status=MAP
    ),
    "Service": record(
        **named("id engine_id host hostname binary topic created_at updated_at", TEXT),
        report_interval=COUNT,
        running=COUNT,
        deleted_at=NULL,
        status={"type": "string", "enum": ["up", "down"]},
        actions=listed(record(**named("id name target", TEXT))),
    ),
}
