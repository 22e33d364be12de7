"""Rows of parameter sources."""
