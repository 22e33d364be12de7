"""Migrations on databases with a server."""

from migration_behaviour import *  # noqa: F403
