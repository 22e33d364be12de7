"""The store on SQLite."""

from store_behaviour import *  # noqa: F403
