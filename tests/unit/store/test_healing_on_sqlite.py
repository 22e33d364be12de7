"""Rows of the healing loop, on SQLite."""

from healing_behaviour import *  # noqa: F403
