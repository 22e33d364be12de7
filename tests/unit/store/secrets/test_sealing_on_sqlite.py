"""Encryption on SQLite."""

from sealing_behaviour import *  # noqa: F403
