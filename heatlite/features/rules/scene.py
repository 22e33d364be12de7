"""View that rules have of an operation: the variables of their expressions."""

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct

from heatlite.core.clock import to_text
from heatlite.core.json import JsonMap
from heatlite.engine.admission.claims import ChangeKind, PreparedRequest
from heatlite.engine.planning.plan import Outcome
from heatlite.engine.preview.preview import StackPreview
from heatlite.engine.preview.preview_views import changed_resources
from heatlite.engine.state.requests import ChangedResource
from heatlite.features.change_policy.effective import VERSION, Occasion
from heatlite.features.rules.expressions import plain
from heatlite.store.store import Store

OCCASIONS = {
    ChangeKind.CREATE: Occasion.CREATE,
    ChangeKind.UPDATE: Occasion.UPDATE,
    ChangeKind.DELETE: Occasion.DELETE,
    ChangeKind.SCALE: Occasion.SCALE,
    ChangeKind.SIGNAL: Occasion.SCALE,
    ChangeKind.REPAIR: Occasion.HEAL,
}
_COUNTED = (Outcome.CREATE, Outcome.UPDATE, Outcome.REPLACE, Outcome.DELETE)


class SeenResource(Struct, frozen=True):
    """A resource that an operation changes."""

    path: str
    types: tuple[str, str]
    """The type in the template, and the one that it stands for."""
    variable: JsonMap


class RuleScene(Struct, frozen=True):
    """An operation, as rules see it. Secrets are masked."""

    plan: JsonMap
    user: JsonMap
    now: datetime
    """By the minute."""
    resources: Sequence[SeenResource]


def scene(store: Store, asked: PreparedRequest, preview: StackPreview, now: float) -> RuleScene:
    """Return what rules see of an operation. The time counts by the minute."""
    root, above = store.stacks.place(asked.stack)
    counts = dict.fromkeys((*(one.value for one in _COUNTED), Outcome.KEEP.value), 0)
    seen = list[SeenResource]()
    for one in changed_resources(preview):
        if one is None or one.action not in counts:
            counts[Outcome.KEEP.value] += 1
        else:
            counts[one.action] += 1
            seen.append(_seen(one, above))
    plan: JsonMap = {
        "operation": OCCASIONS[asked.change].value,
        "project": root.project,
        "stack": root.name,
        "tags": [*root.tags],
        "counts": {**counts},
        "resources": [{key: one.variable[key] for key in ("path", "type", "action")} for one in seen],
    }
    user: JsonMap = {"name": asked.context.user, "roles": [*sorted(asked.context.roles)]}
    return RuleScene(plan, user, datetime.fromtimestamp(now // 60 * 60, UTC), seen)


def endpoint_request(request_id: str, digest: str, seen: RuleScene) -> JsonMap:
    """Return what endpoints are told of a plan with a digest."""
    return {
        "rules": VERSION,
        "request_id": request_id,
        **{key: seen.plan[key] for key in ("operation", "project", "stack")},
        "user": seen.user,
        "now": to_text(seen.now.timestamp()),
        "plan": {"digest": digest, "resources": [one.variable for one in seen.resources]},
    }


def _seen(one: ChangedResource, above: tuple[str, ...]) -> SeenResource:
    path = "/".join((*above, *one.path))
    variable: JsonMap = {
        "path": path,
        "type": one.mapped_type,
        "action": one.action,
        "physical_id": one.row.physical_id,
        "properties": plain(one.properties),
        "old": plain(one.old),
        "changed": [*one.changed],
        "unknown": [*one.unknown],
        "protected": one.row.protection is not None,
    }
    return SeenResource(path, (one.type, one.mapped_type), variable)
