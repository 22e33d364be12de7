"""An environment without settings of the user, for commands."""

from tests.api.test_commands import nobody  # noqa: F401
