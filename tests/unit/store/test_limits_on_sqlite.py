"""Limits of numbers, on SQLite."""

from limit_behaviour import *  # noqa: F403
