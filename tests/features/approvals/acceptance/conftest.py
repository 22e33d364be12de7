"""Fixtures of the acceptance tests."""

from tests.acceptance.conftest import openstack, server  # noqa: F401
