"""Types that only administrators may use."""

from heatlite.api.access.policy import ADMINS
from heatlite.core.context import TYPE

_TYPES = ("OS::Blazar::Host", "OS::Manila::ShareType")

RULES = dict.fromkeys((TYPE + name for name in _TYPES), ADMINS)
"""Rules → roles, as `TABLE` of `api.access.policy`."""
