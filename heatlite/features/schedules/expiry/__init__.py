"""The end of stacks: warnings, the end, and what holds it."""
