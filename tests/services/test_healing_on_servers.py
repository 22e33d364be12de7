"""Rows of the healing loop, on databases with a server."""

from healing_behaviour import *  # noqa: F403
