"""The servers of `tests/api`."""

from tests.api.conftest import (  # noqa: F401
    guarded_server,
    heat,
    own_heat,
    own_server,
    own_store,
    server,
    shared_server,
    town,
)
from tests.api.test_commands import nobody  # noqa: F401
