"""The command line: a client of the HTTP API without the server's packages."""
