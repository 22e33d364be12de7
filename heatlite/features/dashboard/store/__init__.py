"""Rows of the dashboard."""
