"""The agent beside a machine: one piece of work after another. The standard library only; sees nothing of heatlite."""
