"""Encryption on databases with a server."""

from sealing_behaviour import *  # noqa: F403
