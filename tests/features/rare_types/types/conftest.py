"""Fixtures of the tests of types."""

from tests.types.conftest import build, clock, cloudy, place, project, recordings, software, troubled  # noqa: F401 - fixtures
