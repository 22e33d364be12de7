"""Software of servers, on SQLite."""

from software_behaviour import *  # noqa: F403
