"""Wire shapes of plans, and of what updates have left out. Pure functions."""

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from heatlite.api.wire import health_views
from heatlite.core.clock import to_text
from heatlite.core.json import JsonMap
from heatlite.core.wire.base import shown
from heatlite.core.wire.stacks import Restricted
from heatlite.engine.state.requests import PlannedResource, ShownPlan
from heatlite.store.records import Restriction


def restricted(record: Restriction | None) -> Restricted | UnsetType:
    """Return what is left out of a stack's definition, if anything."""
    if record is None:
        return UNSET
    return Restricted(since=to_text(record.since), action_id=record.action_id, left_out=[*record.left_out])


def of_change(plan: ShownPlan) -> JsonMap:
    """Return the plan of an operation on a stack that exists."""
    later: JsonMap = {"after": [*planned(plan.later)]} if plan.later else {}
    left_out = restricted(plan.restricted)
    before: JsonMap = {} if left_out is UNSET else {"restricted": shown(left_out)}
    return {"digest": plan.digest, "resources": [*planned(plan.resources)], **later, **before, **plan.details}


def planned(resources: Sequence[PlannedResource]) -> list[JsonMap]:
    """Return the entries of a plan."""
    return [
        {
            "resource_name": item.path[-1],
            "path": list(item.path),
            "resource_type": item.type,
            "physical_resource_id": item.physical_id or "",
            "action": item.action,
            "cause": item.cause,
            "order": item.order,
            "after": list(item.after),
            "properties": [
                {
                    "name": difference.name,
                    "old": difference.old,
                    "new": difference.new,
                    "known_later": difference.is_open,
                    "replaces": difference.replaces,
                    "because_of": list(difference.because_of),
                }
                for difference in item.differences
            ],
            "metadata_differs": item.metadata_differs,
            "protected": item.is_protected,
            **({} if item.selection is UNSET else {"selection": item.selection}),
            **({} if item.moved_from is UNSET else {"from": item.moved_from}),
            **health_views.of_record(item.health),
        }
        for item in resources
    ]
