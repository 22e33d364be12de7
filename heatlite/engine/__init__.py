"""The engine: plans operations, then carries the plans out.

The rows in the store are the truth. A plan is computed from them whenever it is needed, and never stored.
"""
