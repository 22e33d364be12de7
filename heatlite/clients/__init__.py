"""Clients of clouds.

One interface (`cloud`). This package has real clouds (`connection`).
"""
