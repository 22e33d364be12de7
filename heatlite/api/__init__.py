"""The HTTP API. Handlers read from the store, and write through the engine."""
