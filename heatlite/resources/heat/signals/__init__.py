"""Signals of machines, their transports, and the conditions that wait for them."""
