"""Commands of revisions."""
