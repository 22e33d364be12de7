"""Routes of drift."""
