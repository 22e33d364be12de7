"""Handlers of the API, one class for each group of URLs."""
