"""Redaction: secrets, control characters and formulas that no reader shall get."""
