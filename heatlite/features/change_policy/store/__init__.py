"""Rows of change policies."""
