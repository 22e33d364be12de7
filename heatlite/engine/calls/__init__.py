"""Executions of single steps, and the calls of handlers that they make."""
