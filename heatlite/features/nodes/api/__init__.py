"""Handlers and views of nodes, node actions and playbooks."""
