"""Definitions: resources and outputs of a template that is bound to parameters."""
