"""Drift: what differs from the stored properties, as data."""
