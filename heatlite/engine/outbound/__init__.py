"""Connections that the server opens itself: template downloads, webhooks, other regions."""
