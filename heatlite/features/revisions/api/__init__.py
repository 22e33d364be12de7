"""Routes of revisions."""
