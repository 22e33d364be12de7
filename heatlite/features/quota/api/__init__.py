"""Routes of quotas."""
