"""Amazon's types, implemented with OpenStack services."""
