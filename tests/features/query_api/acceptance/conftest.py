"""Fixtures of the acceptance tests."""

from tests.acceptance.conftest import server  # noqa: F401
