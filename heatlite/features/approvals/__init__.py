"""Approvals: decisions of people that operations wait for."""
