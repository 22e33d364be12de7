"""Work on the machines of stacks, through the agents beside them (docs/decisions/0015-node-actions.md)."""
