"""Types of services that few clouds have."""
