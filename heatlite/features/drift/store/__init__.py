"""Rows of drift."""
