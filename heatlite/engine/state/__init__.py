"""State that operations share: definitions, values, rules of conflict, writes with their events."""
