"""Contact with agents: registration, orchestrations, software deployments."""
