"""Plans: a comparison of rows with definitions, previews of it, and the values that it hides."""
