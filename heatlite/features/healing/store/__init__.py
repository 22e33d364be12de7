"""Sources of reports, observations, incidents, policies and repairs."""
