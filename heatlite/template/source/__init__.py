"""Text to data, and the problems found in it, with their places."""
