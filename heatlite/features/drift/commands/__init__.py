"""Commands of drift."""
