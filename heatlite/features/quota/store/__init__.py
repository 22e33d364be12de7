"""Rows of reservations."""
