"""Intake of reports: formats, mappings, targets."""
