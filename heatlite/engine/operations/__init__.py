"""Use cases: each operation that a caller can ask of a stack."""
