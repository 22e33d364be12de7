"""The walk over a plan: one resource at a time, with nested stacks, hooks and retries."""
