"""Change policies: what the operator, a project and a stack ask of each change."""
