"""Features: each package here is one subject, whole. The core names none of them."""
