"""Ownership of objects: which stack has one, and how it comes and goes alive."""
