"""Previews of operations, and checks before one begins."""
