"""`growth_behaviour` on SQLite."""

from growth_behaviour import *  # noqa: F403
