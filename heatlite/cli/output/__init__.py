"""Formats of output: tables, plans, progress and problem reports."""
