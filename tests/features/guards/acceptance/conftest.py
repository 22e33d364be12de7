"""The watched stack of healing."""

from tests.features.healing.acceptance.test_healing import site  # noqa: F401
