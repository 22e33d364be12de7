"""Software of servers, on databases with a server."""

from software_behaviour import *  # noqa: F403
