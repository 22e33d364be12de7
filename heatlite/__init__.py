"""heatlite: a stack engine that speaks the OpenStack Heat v1 API."""

__version__ = "0.1.0"
