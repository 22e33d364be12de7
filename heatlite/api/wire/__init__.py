"""Wire shapes: bodies of requests and views of records."""
