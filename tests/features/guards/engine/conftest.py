"""The engine of `tests/engine`."""

from tests.engine.conftest import _no_engine_outlives_its_test, engine, place, plugins  # noqa: F401
