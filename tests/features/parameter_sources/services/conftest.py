"""Databases with a server."""

from tests.services.conftest import connected, server, store, url  # noqa: F401
