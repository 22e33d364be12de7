"""The CloudFormation query API, as guests use it, and access keys."""
