"""Limits of numbers, on databases with a server."""

from limit_behaviour import *  # noqa: F403
