"""Speed of heatlite, beside the limits of the machine and a peer, in one run.

``python -m benchmarks`` from the checkout; docs/benchmarks.md explains the cases and has the last table.
"""
