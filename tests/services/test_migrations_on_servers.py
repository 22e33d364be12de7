"""What migrations do on every database, on those with a server."""

from migration_behaviour import *  # noqa: F403
