"""Plan, then do.

The rows in the store are the truth; the plan is made anew whenever it is needed.
"""
