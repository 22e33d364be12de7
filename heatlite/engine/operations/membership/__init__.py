"""Members that enter a group with their objects, or leave it with them."""
