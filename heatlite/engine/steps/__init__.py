"""Walks over plans, step by step, with nested stacks, hooks and retries."""
