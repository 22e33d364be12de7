"""The dashboard."""

from tests.features.dashboard.conftest import browser, server  # noqa: F401
