"""Admission of operations: conflict checks, preparation of templates, suppressed requests."""
