"""Refusals of change policies."""

from heatlite.core.clock import to_text
from heatlite.core.errors import Conflict
from heatlite.core.wire.why import Holder, WayOut
from heatlite.features.change_policy.store.records import ChangePolicyRecord


class PolicyChanged(Conflict):
    """A change policy changed between reading and writing."""

    text = "The change policy of {whose} has version {version}, not {given}. Nothing was done. Read it again."

    def __init__(self, stored: ChangePolicyRecord, given: int, stack_name: str | None) -> None:
        whose = "the project" if stack_name is None else f"stack {stack_name}"
        of_stack = "" if stack_name is None else f"/stacks/{stack_name}/{stored.stack_id}"
        way = WayOut(
            text="reads it", command=f"heatlite change-policy show {stack_name or ''}".rstrip(), method="GET",
            path=f"/v1/{stored.project}{of_stack}/change_policy",
        )  # fmt: skip
        since = to_text(stored.updated_at)
        held = Holder(kind="change_policy", id=stored.stack_id or stored.project, by=stored.updated_by, since=since)
        super().__init__(whose=whose, version=stored.version, given=given, holder=held, way_out=[way])
