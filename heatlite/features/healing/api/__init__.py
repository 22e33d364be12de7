"""Routes of the healing loop."""
