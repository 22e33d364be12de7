"""Shared state of operations: definitions, values, conflict rules, units of work."""
