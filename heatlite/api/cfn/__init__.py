"""The CloudFormation query API, as guests use it."""
