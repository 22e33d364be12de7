"""The HTTP face.

Handlers decide nothing: reads go to the store, writes to the engine.
"""
