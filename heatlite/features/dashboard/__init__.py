"""The dashboard: HTML pages over the API of this process."""
