"""The feature `reports`: one of another package, with a table."""
