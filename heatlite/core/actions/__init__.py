"""Contents of actions: payloads, the tally of a check, the selection of a repair."""
