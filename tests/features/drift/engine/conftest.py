"""The engine of `tests/engine`, also on a simulated cloud."""

from tests.engine.conftest import _no_engine_outlives_its_test, engine, place, plugins  # noqa: F401
from tests.types.conftest import cloudy, troubled  # noqa: F401
