"""Types of the load balancer service."""
