"""Store of ownership."""
