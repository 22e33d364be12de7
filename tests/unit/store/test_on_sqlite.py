"""What holds on every database, on SQLite."""

from store_behaviour import *  # noqa: F403
