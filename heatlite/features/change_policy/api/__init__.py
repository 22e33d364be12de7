"""Routes of change policies."""
