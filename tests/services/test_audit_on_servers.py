"""Rows of the audit log, on databases with a server."""

from audit_behaviour import *  # noqa: F403
