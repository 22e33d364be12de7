"""Commands on approvals."""
