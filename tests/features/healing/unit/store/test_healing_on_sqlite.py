"""Rows of the healing loop, on SQLite."""

from tests.features.healing.unit.store.healing_behaviour import *  # noqa: F403
from tests.features.healing.unit.store.healing_limits import *  # noqa: F403
