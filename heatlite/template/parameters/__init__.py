"""Parameters of templates: definitions, constraints and typed values."""
