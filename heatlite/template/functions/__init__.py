"""Template functions, one class each.

`dialects` tells which version of a language has which.
"""
