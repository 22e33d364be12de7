"""The permissions of each role, as `TABLE` of `api.access.policy`."""

from heatlite.api.access.policy import MEMBERS, READERS
from heatlite.core.context import STACK_USER

RULES = {
    "access_keys:create": READERS,
    "access_keys:delete": READERS,
    "access_keys:index": READERS,
    "cloudformation:CancelUpdateStack": MEMBERS,
    "cloudformation:CreateStack": MEMBERS,
    "cloudformation:DeleteStack": MEMBERS,
    "cloudformation:DescribeStackEvents": READERS,
    "cloudformation:DescribeStackResource": READERS | {STACK_USER},
    "cloudformation:DescribeStackResources": READERS,
    "cloudformation:DescribeStacks": READERS,
    "cloudformation:EstimateTemplateCost": READERS,
    "cloudformation:GetTemplate": READERS,
    "cloudformation:ListStackResources": READERS,
    "cloudformation:ListStacks": READERS,
    "cloudformation:SignalResource": MEMBERS | {STACK_USER},
    "cloudformation:UpdateStack": MEMBERS,
    "cloudformation:ValidateTemplate": READERS,
}
"""Rules → roles. An action needs its rule here and the rule of the REST API for the same."""
