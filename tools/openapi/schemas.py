"""Schemas of the parts of answers (JSON Schema 2020-12).

Objects are open: later versions may add keys. A test closes them and compares them with the samples of the reference.
"""

from heatlite.core.json import Json, JsonMap
from heatlite.core.status import ActionStatus, Control, LockLevel
from heatlite.features.healing.terms import Brake, ClosedAs, IncidentState
from heatlite.features.nodes.states import NodeActionState, NodeState, Origin, Requester
from heatlite.store.audit import Outcome

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

_STACK_TIMES: JsonMap = {"creation_time": TIME, "updated_time": TIME_OR_NULL, "deletion_time": TIME_OR_NULL}
_STACK_SUMMARY = record(
    {"project": TEXT},
    **named("id stack_name description stack_status stack_status_reason", TEXT),
    links=LINKS,
    **_STACK_TIMES,
    **named("stack_owner parent stack_user_project_id", TEXT_OR_NULL),
    tags=or_null(TEXTS),
    locked=FLAG,
    protected=FLAG,
    health=or_null(ref("StackHealth")),
)
_DESCRIBED = record(
    **named("id stack_name description template_description", TEXT),
    links=LINKS,
    **_STACK_TIMES,
    parameters=by_name(TEXT_OR_NULL),
    disable_rollback=FLAG,
    timeout_mins=or_null(COUNT),
    **named("stack_owner parent stack_user_project_id", TEXT_OR_NULL),
    tags=TEXTS,
    notification_topics=listed(TEXT),
    capabilities=listed(TEXT),
)
_STACK = widened(
    _DESCRIBED,
    {"outputs": listed(ref("Output"))},
    stack_status=TEXT,
    stack_status_reason=TEXT,
    locked=FLAG,
    protection=or_null(ref("Protection")),
    health=or_null(ref("StackHealth")),
    cloud=or_null(ref("Cloud")),
)
_STATE = named("physical_resource_id resource_status resource_status_reason", TEXT)
_RESOURCE = record(
    {
        **{"parent_resource": TEXT, "health": ref("ResourceHealth"), "description": TEXT},
        **{"left_over": listed(record(**_STATE, resource_type=TEXT, creation_time=TIME, updated_time=TIME))},
        **{"attributes": or_null(MAP), "attributes_error": TEXT},
    },
    **named("resource_name logical_resource_id resource_type", TEXT),
    **_STATE,
    creation_time=TIME,
    updated_time=TIME,
    required_by=TEXTS,
    links=LINKS,
    protection=or_null(ref("Protection")),
    deletion_policy={"type": "string", "enum": ["Delete", "Retain", "Snapshot"]},
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
    {"health": ref("ResourceHealth")},
    **named("resource_name resource_type physical_resource_id action", TEXT),
    path=TEXTS,
    after=TEXTS,
    cause=TEXT_OR_NULL,
    order=TEXT_OR_NULL,
    properties=listed(record(name=TEXT, old=ANY, new=ANY, known_later=FLAG, replaces=FLAG, because_of=TEXTS)),
    metadata_differs=FLAG,
    protected=FLAG,
)
_EVENT = record(
    **named("id resource_name logical_resource_id", TEXT),
    **_STATE,
    links=LINKS,
    event_time=TIME,
)
_BEGUN = record(**named("id name action target", TEXT), status=one_of(ActionStatus))
_ACTION = widened(
    _BEGUN,
    cause=TEXT,
    status_reason=TEXT,
    control=or_null(one_of(Control)),
    owner=TEXT_OR_NULL,
    parent=TEXT_OR_NULL,
    context=record(user=TEXT_OR_NULL, project=TEXT, request_id=TEXT, roles=TEXTS),
    created_at=TIME,
    **named("updated_at not_before start_time stop_time end_time deadline", TIME_OR_NULL),
    timeout=NUMBER,
    interval=NUMBER,
    attempt=COUNT,
    retries=COUNT,
    **named("inputs outputs data", MAP),
    depends_on=TEXTS,
    depended_by=TEXTS,
    links=LINKS,
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
SCHEMAS: JsonMap = {
    "Link": record(href=TEXT, rel=TEXT),
    "Fault": record(
        code={"type": "integer"}, title=TEXT, explanation=TEXT, error=record(type=TEXT, message=TEXT, traceback=NULL)
    ),
    "Accepted": record(**named("message code title", TEXT)),
    "HealthReports": {"anyOf": [MAP, listed(ANY)]},
    "Cloud": record(name=TEXT, auth_url=TEXT, region=TEXT_OR_NULL, project_id=TEXT_OR_NULL),
    "Protection": record(protected_by=TEXT_OR_NULL, reason=TEXT_OR_NULL, protected_at=TIME),
    "StackHealth": record(**named("unhealthy unknown suspected held scopes_suspended", COUNT)),
    "ResourceHealth": record(
        state={"type": "string", "enum": ["unhealthy", "suspected", "unknown"]},
        since=TIME_OR_NULL,
        source=TEXT_OR_NULL,
        incident=TEXT_OR_NULL,
        reason=TEXT,
    ),
    "Output": record({"output_error": TEXT}, output_key=TEXT, description=TEXT, output_value=ANY),
    "StackSummary": _STACK_SUMMARY,
    "Stack": _STACK,
    "StackPreview": widened(_DESCRIBED, resources=listed(ref("PreviewTree"))),
    "StackRecord": _STACK_RECORD,
    "Resource": _RESOURCE,
    "FoundResource": widened(_RESOURCE, **named("stack_name stack_id root_stack_name root_stack_id path", TEXT)),
    "PreviewResource": _PREVIEW_RESOURCE,
    "PreviewTree": {"anyOf": [ref("PreviewResource"), listed(ref("PreviewTree"))]},
    "ResourceChanges": record(
        **dict.fromkeys(("unchanged", "updated", "replaced", "added", "deleted"), listed(ref("PreviewResource")))
    ),
    "Plan": record({"digest": TEXT}, resources=listed(_PLANNED)),
    "Event": _EVENT,
    "EventDetails": widened(_EVENT, resource_type=TEXT, resource_properties=ANY),
    "BegunAction": _BEGUN,
    "Action": _ACTION,
    "Transition": record(
        **{"time": TIME, "from": one_of(ActionStatus), "to": one_of(ActionStatus)},
        attempt=COUNT,
        owner=TEXT_OR_NULL,
        reason=TEXT,
    ),
    "Snapshot": record(
        {"data_error": TEXT},
        **named("id action status status_reason", TEXT),
        name=TEXT_OR_NULL,
        data=or_null(ref("StackRecord")),
        creation_time=TIME,
    ),
    "Lock": record(
        level=one_of(LockLevel),
        locked_by=TEXT_OR_NULL,
        reason=TEXT_OR_NULL,
        locked_at=TIME,
        expires_at=TIME_OR_NULL,
        inherited_from=or_null(record(id=TEXT, name=TEXT)),
    ),
    "SuppressedRequest": record(
        **named("id request detail", TEXT),
        stack=record(id=TEXT, name=TEXT_OR_NULL),
        time=TIME,
        last_time=TIME,
        count=COUNT,
        target=TEXT_OR_NULL,
        requested_by=TEXT_OR_NULL,
        effect=ANY,
        replayable=FLAG,
    ),
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
            record(time=TIME, state=one_of(NodeActionState), origin=one_of(Origin), user=TEXT_OR_NULL, reason=TEXT)
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
        **named("user user_id address stack_id stack_name resource_name target plan_digest action_id", TEXT_OR_NULL),
        outcome=one_of(Outcome),
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
        {"NestedParameters": MAP, "ParameterGroups": listed(MAP)},
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
