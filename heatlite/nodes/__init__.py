"""Work on the machines of stacks: what is wanted, who approved it, and what their agents say came of it."""
