"""Guards of updates: what takes an update back while its old objects still exist."""
