"""The language: templates, parameters, environments, functions.

Pure: no I/O, no database, no cloud.
"""
