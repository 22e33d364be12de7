"""Handlers of the resources of a stack."""
