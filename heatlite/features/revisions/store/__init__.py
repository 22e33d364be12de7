"""Rows of revisions."""
