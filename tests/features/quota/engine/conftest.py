"""The engine of `tests/engine` on a simulated cloud."""

from tests.engine.conftest import _no_engine_outlives_its_test, place  # noqa: F401
from tests.types.conftest import cloudy, troubled  # noqa: F401
