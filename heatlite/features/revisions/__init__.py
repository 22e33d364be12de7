"""Revisions: the definitions that a stack was given, and the way back to them."""
