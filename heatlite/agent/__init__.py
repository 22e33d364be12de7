"""Agent that runs actions on a machine, one after another.

Uses the standard library only and imports nothing else of heatlite but its version.
"""
