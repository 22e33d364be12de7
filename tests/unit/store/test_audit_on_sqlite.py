"""Rows of the audit log, on SQLite."""

from audit_behaviour import *  # noqa: F403
