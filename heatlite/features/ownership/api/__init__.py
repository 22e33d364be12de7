"""Routes of ownership."""
