"""Schedules: operations on stacks at set times."""
