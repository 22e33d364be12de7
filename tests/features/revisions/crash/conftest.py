"""The types and fixtures of `tests/crash`."""

from tests.crash.conftest import example_plugin, place, prepared  # noqa: F401
