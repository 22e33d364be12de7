"""Actions from claim to end: worker loop, execution of one attempt, termination, retention."""
