"""Clients of clouds.

One interface (`cloud`) with two implementations: real clouds (`connection`), and one in memory in `heatlite.simulated`.
"""
