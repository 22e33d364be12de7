"""Serves the WSGI application over HTTP."""
