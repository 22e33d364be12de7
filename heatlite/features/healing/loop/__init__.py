"""The loop: from an observation to a repair, tree by tree."""
