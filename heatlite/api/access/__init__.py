"""Authentication and authorization (docs/decisions/0012-access.md)."""
