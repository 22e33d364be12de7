"""Rows of approvals."""
