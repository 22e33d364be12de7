"""Writes: batched statements, large values, late writes, locks on rows."""
