"""Changes of definitions and rows in one transaction, and of no object."""
