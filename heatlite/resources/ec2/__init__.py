"""Amazon's types, on the services of OpenStack."""
