"""What is encrypted, on SQLite."""

from sealing_behaviour import *  # noqa: F403
