"""Outbound connections: template downloads, webhooks, other regions."""
