"""Fixtures of the tests of the API."""

from tests.api.conftest import heat, own_heat, own_server, own_store, refusing, server, shared_server, store  # noqa: F401
