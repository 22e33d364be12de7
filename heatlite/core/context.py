"""Who asks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

ANONYMOUS = "anonymous"
"""Who asks where nobody is asked who he is."""

ADMIN = "admin"
"""The role of administrators."""

TYPE = "resource_types:"
"""What the rule of a resource type begins with (`Context.may`), or of all types of a service (``OS::Keystone::*``)."""


@dataclass(frozen=True, slots=True)
class Context:
    """The caller of one request, and the project it acts in."""

    project: str
    user: str = ANONYMOUS
    roles: frozenset[str] = frozenset({ADMIN, "member", "reader"})
    request_id: str = ""
    user_id: str = ""
    """Keystone's id of the user; "" where there is no Keystone, as for the domains."""
    user_domain_id: str = ""
    project_domain_id: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """What the caller has proved, or could prove, himself with: ``token``; ``username`` and ``password``. It is for
    what is done on his behalf only: it is stored encrypted or not at all, and shown nowhere."""
    may: Callable[[str], bool] = field(default=lambda _rule: True, repr=False, compare=False)
    """Whether the caller may do what a rule of the access policy names, as long as his request is answered."""
    queued: list[str] = field(default_factory=list, repr=False, compare=False)
    """The ids of the actions that the request has put into the queue so far."""

    @property
    def is_admin(self) -> bool:
        """Whether the caller may lift what an administrator has set."""
        return ADMIN in self.roles
