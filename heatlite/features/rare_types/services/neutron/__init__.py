"""Types of extensions of the network service."""
