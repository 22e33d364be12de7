"""Actions from claim to end: worker, execution, termination, retention."""
