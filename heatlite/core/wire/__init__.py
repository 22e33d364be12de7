"""Keys of the API, each declared once: for server, command line and reference."""
