"""Stacks, resources and events in the elements of the query API."""

from collections.abc import Iterable

from heatlite.core.clock import to_text
from heatlite.core.json import Json, JsonMap, dump
from heatlite.core.status import state
from heatlite.store.records import EventRecord, ResourceRecord, StackRecord, StackSummary


def arn(project: str, name: str, stack_id: str) -> str:
    """Return the ARN of a stack."""
    return f"arn:openstack:heat::{project}:stacks/{name}/{stack_id}"


def summary(stack: StackSummary) -> JsonMap:
    """Return a stack for ListStacks."""
    return {
        "StackId": arn(stack.project, stack.name, stack.id),
        "StackName": stack.name,
        "TemplateDescription": "",
        "CreationTime": to_text(stack.created_at),
        "LastUpdatedTime": to_text(stack.updated_at),
        "DeletionTime": to_text(stack.deleted_at),
        "StackStatus": state(stack.verb, stack.status),
        "StackStatusReason": stack.status_reason,
    }


def stack(record: StackRecord, shown: JsonMap) -> JsonMap:
    """Return a stack for DescribeStacks. `shown` is what the REST API shows."""
    parameters, outputs = shown["parameters"], shown.get("outputs") or []
    assert isinstance(parameters, dict) and isinstance(outputs, list)
    return {
        "StackId": arn(record.project, record.name, record.id),
        "StackName": record.name,
        "Description": shown["description"],
        "Parameters": [
            {"ParameterKey": name, "ParameterValue": "" if value is None else value}
            for name, value in parameters.items()
        ],
        "CreationTime": shown["creation_time"],
        "LastUpdatedTime": shown["updated_time"],
        "DeletionTime": shown["deletion_time"],
        "StackStatus": shown["stack_status"],
        "StackStatusReason": shown["stack_status_reason"],
        "DisableRollback": record.disable_rollback,
        "NotificationARNs": [],
        "TimeoutInMinutes": record.timeout_mins,
        "Capabilities": [],
        "Outputs": [_output(one) for one in outputs if isinstance(one, dict)],
    }


def _output(shown: JsonMap) -> JsonMap:
    value = shown.get("output_value")
    return {
        "OutputKey": shown["output_key"],
        "OutputValue": "" if value is None else value if isinstance(value, str) else dump(value),
        "Description": shown["description"],
    }


def _resource(row: ResourceRecord, time: str) -> JsonMap:
    changed = row.created_at if row.updated_at is None else row.updated_at
    return {
        "LogicalResourceId": row.name,
        "PhysicalResourceId": row.physical_id or "",
        "ResourceType": row.type,
        time: to_text(changed),
        "ResourceStatus": state(row.verb, row.status),
        "ResourceStatusReason": row.status_reason,
    }


def _of_stack(stack: StackRecord) -> JsonMap:
    return {"StackId": arn(stack.project, stack.name, stack.id), "StackName": stack.name}


def resource_summary(row: ResourceRecord) -> JsonMap:
    """Return a resource for ListStackResources."""
    return _resource(row, "LastUpdatedTimestamp")


def resource(stack: StackRecord, row: ResourceRecord) -> JsonMap:
    """Return a resource for DescribeStackResources."""
    return {**_of_stack(stack), **_resource(row, "Timestamp"), "Description": row.description}


def resource_detail(stack: StackRecord, row: ResourceRecord, metadata: JsonMap) -> JsonMap:
    """Return a resource for DescribeStackResource."""
    detail = _resource(row, "LastUpdatedTimestamp")
    return {**_of_stack(stack), **detail, "Description": row.description, "Metadata": metadata}


def event(stack: StackRecord, record: EventRecord, properties: Json) -> JsonMap:
    """Return an event for DescribeStackEvents."""
    return {
        **_of_stack(stack),
        "EventId": str(record.id),
        "LogicalResourceId": record.resource_name,
        "PhysicalResourceId": record.physical_id or "",
        "ResourceType": record.resource_type,
        "Timestamp": to_text(record.created_at),
        "ResourceStatus": state(record.verb, record.status),
        "ResourceStatusReason": record.status_reason,
        "ResourceProperties": dump(properties),
    }


def validation(shown: JsonMap) -> JsonMap:
    """Return the answer of ValidateTemplate. `shown` is that of the REST API."""
    parameters = shown["Parameters"]
    assert isinstance(parameters, dict)
    return {
        "Description": shown["Description"],
        "Capabilities": [],
        "Parameters": [*_declared(parameters.items())],
    }


def _declared(parameters: Iterable[tuple[str, Json]]) -> Iterable[Json]:
    for name, about in parameters:
        assert isinstance(about, dict)
        default = about.get("Default", "")
        yield {
            "ParameterKey": name,
            "DefaultValue": default if isinstance(default, str) else dump(default),
            "NoEcho": str(about.get("NoEcho", "false")).lower() == "true",
            "Description": about.get("Description", ""),
        }
