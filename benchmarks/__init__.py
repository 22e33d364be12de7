"""How fast heatlite is, next to what the same machine does at best and to a peer, in one run.

``python -m benchmarks`` from the checkout; docs/benchmarks.md explains the cases and has the last table.
"""
