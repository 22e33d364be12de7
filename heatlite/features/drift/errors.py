"""Refusals of operations on drift."""

from heatlite.core.errors import Conflict
from heatlite.core.wire.why import words
from heatlite.engine.state import ways_out
from heatlite.store.records import StackRecord


class DriftNotAcceptable(Conflict):
    """Live values cannot go into the definition."""

    text = (
        "Stack {stack_name} cannot accept: {places}. Nothing was done. Change the template, ignore the differences"
        " (ignore_drift), or put them back: heatlite drift revert {stack_name}."
    )

    def __init__(self, stack: StackRecord, places: str) -> None:
        command = f"heatlite drift revert {words(stack.name)}"
        back = ways_out.on_stack(stack, "revert_drift", "puts the differences back", command, {})
        super().__init__(stack_name=stack.name, places=places, way_out=[back])
