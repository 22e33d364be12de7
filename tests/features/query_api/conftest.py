"""The fixtures of the API's tests."""

from tests.api.conftest import heat, server, shared_server, store

__all__ = ["heat", "server", "shared_server", "store"]
