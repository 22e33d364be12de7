"""The healing loop: from a report to a repair, with brakes."""
