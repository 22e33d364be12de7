"""The servers of `tests/api`, for the tests of all features."""

from tests.api.conftest import (  # noqa: F401
    guarded_server,
    heat,
    own_heat,
    own_server,
    own_store,
    refusing,
    server,
    shared_server,
    store,
    town,
)
