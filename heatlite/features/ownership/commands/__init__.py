"""Commands of ownership."""
