"""Commands on change policies."""
