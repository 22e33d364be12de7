"""Terms and tools that all packages share. Imports no other package of heatlite."""
