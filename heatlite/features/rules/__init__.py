"""Rules that judge plans before anything is made."""
