"""Software configs, their deployments, and the servers they are deployed to."""
