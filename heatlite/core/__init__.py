"""Words that every room shares. This room imports nothing of ours."""
