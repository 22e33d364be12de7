"""Plans: compare rows with definitions, decide, preview, and redact secrets."""
