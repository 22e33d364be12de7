"""Commands on nodes and playbooks."""
