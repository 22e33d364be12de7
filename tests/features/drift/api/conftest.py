"""The servers of `tests/api`."""

from tests.api.conftest import heat, own_heat, own_server, own_store, server, shared_server  # noqa: F401
from tests.api.test_commands import nobody  # noqa: F401
