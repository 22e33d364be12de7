"""Fixtures of the acceptance tests."""

from tests.acceptance.conftest import serve  # noqa: F401
