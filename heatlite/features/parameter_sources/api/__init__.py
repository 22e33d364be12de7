"""Routes of parameter sources."""
