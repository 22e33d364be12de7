"""Commands on healing and on reports."""
