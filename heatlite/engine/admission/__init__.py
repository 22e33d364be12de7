"""Admission of operations: conflict checks, preparation, suppressed requests."""
