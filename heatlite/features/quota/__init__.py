"""Quotas of projects in the cloud: whether plans fit them."""
