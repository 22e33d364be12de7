"""The command line: a client of the HTTP API. It sees none of the server's rooms."""
