"""Rows of guards."""
