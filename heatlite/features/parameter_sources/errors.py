"""Refusals of values from other stacks."""

import shlex
from collections.abc import Sequence

from heatlite.core.clock import to_text
from heatlite.core.errors import Conflict
from heatlite.core.json import JsonMap, as_text
from heatlite.core.wire.why import Holder, WayOut, words
from heatlite.store.records import StackRecord


class SourceChanged(Conflict):
    """The stack with an output changed while it was read."""

    retry_after = 5

    def __init__(self, owner: StackRecord, output: str, parameter: str) -> None:
        """`owner` is the stack as it was."""
        since = to_text(owner.updated_at or owner.created_at)
        super().__init__(
            f"Stack {owner.name} was changed while its output {output} was read for parameter {parameter}. Nothing was"
            " done. Send the request again.",
            holder=Holder(kind="stack", id=owner.id, since=since),
            way_out=[WayOut(text="send the request again")],
        )


class OutputInUse(Conflict):
    """An operation would remove an output that other stacks read."""

    def __init__(self, owner: StackRecord, readers: Sequence[tuple[JsonMap, float]]) -> None:
        """`readers` are as plans show them, with the times of their readings.

        Those of other projects are only counted.
        """
        own = [(one, read_at) for one, read_at in readers if one["project"] == owner.project]
        others = len(readers) - len(own)
        names = sorted({f"{one['stack_name']} ({one['parameter']} = {one['output']})" for one, _ in own})
        told = ", ".join([*names, *([f"{others} of other projects"] if others else [])])
        first, read_at = own[0] if own else readers[0]
        name, parameter = str(first["stack_name"]), first["parameter"]
        insisting = WayOut(text="removes it nevertheless: the same request with force=true")
        way = WayOut(
            text=f"gives {parameter} of {name} a value of its own",
            command=f"heatlite up FILE -n {words(name)} {shlex.quote(f'--parameter={parameter}=VALUE')}",
        )
        held = as_text(first["stack_id"]) if own else None
        super().__init__(
            f"Stack {owner.name} is left as it is, since other stacks read what would be removed: {told}. Give them"
            " other values first, or insist with force=true. (reads in the change policy.)",
            holder=Holder(kind="stack", id=held, since=to_text(read_at)),
            way_out=[way, insisting] if own else [insisting],
        )
        self.facts = {"readers": [one for one, _ in own], "others": others}
