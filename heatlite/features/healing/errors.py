"""Refusals of healing."""

from heatlite.core.errors import Conflict
from heatlite.core.wire.why import WayOut


class PolicyChanged(Conflict):
    """A healing policy changed between reading and writing."""

    text = (
        "The healing policy of stack {stack_name} has version {version}, not {given}. Nothing was done. Read it again."
    )
    ways = (WayOut(text="reads it again", command="heatlite healing show {stack_name} --policy"),)


class HealingHeld(Conflict):
    """Brakes hold a repair that was asked for."""

    text = "Nothing was done: {brakes} hold{s} the repair of {path}. Release what holds it, {way}."
    ways = (WayOut(text="shows what holds it", command="heatlite health show {stack_name}"),)
