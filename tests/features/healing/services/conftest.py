"""Databases with a server."""

from tests.services.conftest import connected, server, store, url  # noqa: F401
from tests.unit.store.limit_behaviour import api  # noqa: F401
