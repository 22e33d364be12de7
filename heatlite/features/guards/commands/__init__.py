"""Commands of guards."""
