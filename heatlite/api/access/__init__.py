"""Who may come in, and what he may do (docs/decisions/0012-access.md)."""
