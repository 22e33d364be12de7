"""Commands of parameter sources."""
