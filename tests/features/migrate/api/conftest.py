"""A server on a simulated cloud."""

from tests.features.ownership.api.conftest import clouded, nobody  # noqa: F401
