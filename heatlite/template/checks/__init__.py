"""Checks of templates and environments: errors, warnings, hints."""
