"""Work on the machines of stacks, through agents (docs/decisions/0015)."""
