"""Rarely used resource types."""
