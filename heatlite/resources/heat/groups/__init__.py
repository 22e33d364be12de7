"""Groups of alike members, and what resizes them."""
