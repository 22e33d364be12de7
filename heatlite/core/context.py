"""Who asks."""

from dataclasses import dataclass

ANONYMOUS = "anonymous"
"""Who asks where nobody is asked who he is."""


@dataclass(frozen=True, slots=True)
class Context:
    """The caller of one request, and the project it acts in."""

    project: str
    user: str = ANONYMOUS
    roles: frozenset[str] = frozenset({"admin", "member", "reader"})
    request_id: str = ""

    @property
    def is_admin(self) -> bool:
        """Whether the caller may lift what an administrator has set."""
        return "admin" in self.roles
