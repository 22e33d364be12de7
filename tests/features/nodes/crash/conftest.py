"""The types of `tests/crash`."""

from tests.crash.conftest import example_plugin  # noqa: F401
from tests.crash.test_every_commit import place, victims  # noqa: F401
