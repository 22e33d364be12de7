"""Refusals of change policies."""

from heatlite.core.errors import Conflict


class PolicyChanged(Conflict):
    """A change policy changed between reading and writing."""

    text = "The change policy of {whose} has version {version}, not {given}. Nothing was done. Read it again."
