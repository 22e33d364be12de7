"""Refusals of operations on drift."""

from heatlite.core.errors import Conflict
from heatlite.core.wire.why import WayOut


class DriftNotAcceptable(Conflict):
    """Live values cannot go into the definition."""

    text = (
        "Stack {stack_name} cannot accept: {places}. Nothing was done. Change the template, ignore the differences"
        " (ignore_drift), or put them back: heatlite drift revert {stack_name}."
    )
    ways = (WayOut(text="puts the differences back", command="heatlite drift revert {stack_name}"),)
