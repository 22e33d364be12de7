"""Descriptions of resource types for users: a schema for editors, and templates."""
