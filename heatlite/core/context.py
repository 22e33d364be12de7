"""Caller of a request, with identity, roles and project."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from heatlite.core.errors import Forbidden
from heatlite.core.redaction.secret_fields import HidesSecrets
from heatlite.core.status import Cause

ANONYMOUS = "anonymous"
"""Caller of an installation without authentication."""

MACHINE = "machine:"
"""Begin of the names of machines that have proven themselves by a key of a resource.
The physical name of the resource follows. No account has such a name."""

ADMIN = "admin"
"""The role of administrators."""
STACK_USER = "heat_stack_user"
"""The role of machines: they read their own metadata, and signal. Heat and Keystone name it so."""

TYPE = "resource_types:"
"""Prefix of the access rules of resource types (`Context.may`).
``OS::Keystone::*`` names all types of a service."""


EXPORT = "stacks:export"
"""The rule of the record that a stack is handed over with.
A caller who may export is shown what is hidden (`Context.may_see_hidden`)."""


class Context(HidesSecrets, frozen=True):
    """The caller of one request, and the project it acts in."""

    secret_fields = frozenset({"token"})

    project: str
    user: str = ANONYMOUS
    roles: frozenset[str] = frozenset({ADMIN, "member", "reader"})
    request_id: str = ""
    user_id: str = ""
    """Keystone's id of the user; "" where there is no Keystone, as for the domains."""
    user_domain_id: str = ""
    project_domain_id: str = ""
    token: str = ""
    """The caller's token of Keystone, with which the request reads the cloud and delegates rights; "" without one.
    Stored nowhere, and shown nowhere."""
    may: Callable[[str], bool] = lambda _rule: True
    """Test whether the access policy allows a rule while the request is served."""
    queued: list[str] = []
    """The ids of the actions that the request has put into the queue so far."""
    approvals: list[str] = []
    """The ids of the approvals that the request has asked for, decided or used so far."""
    granted: frozenset[str] | None = None
    """The roles of the caller's account, which are those that the caller can delegate; None: `roles`.
    The access policy adds `ADMIN` to `roles`, or removes it."""
    replay: "Replay | None" = None
    """The suppressed request that the caller makes again."""
    scheduled: "Scheduled | None" = None
    """The scheduled action that begins now. The action that the request enqueues takes its place."""
    cause: Cause = Cause.REQUEST
    """The cause of the actions that are queued for the caller."""
    claim: Callable[[], None] = lambda: None
    """Called at the end of the transaction that admits an operation, with `queued` complete.

    It takes what the operation is done for, and raises an error if that is taken already."""

    options: Mapping[str, str] = {}
    """Query keys of the request that features have stated (`Feature.options`)."""

    @property
    def is_admin(self) -> bool:
        """Test whether the caller may lift what an administrator set."""
        return ADMIN in self.roles

    @property
    def may_see_hidden(self) -> bool:
        """Test whether the caller is shown hidden parameters and secrets of resources."""
        return self.may(EXPORT)

    def require(self, rule: str) -> None:
        """Raise Forbidden unless the policy allows the rule.

        For a replayed request, its author must be allowed as well.
        """
        if self.may(rule):
            return
        author, action = None if self.replay is None else self.replay.author, rule.removeprefix(TYPE)
        if author is None or author.may(rule):
            raise Forbidden(action=action)
        raise Forbidden(f"{author.user}, who made the request that is replayed, is not authorized to use {action}.")


class Scheduled(Struct, frozen=True):
    """A scheduled action whose time has come."""

    action_id: str
    created_at: float
    not_before: float | None


class Replay(Struct):
    """A suppressed request that is made again.

    It runs with the rights that both callers have.
    """

    stack_id: str
    entry_id: int
    author: Context
    """The caller who made the request first, with the roles that the caller had then."""
    request_id: str
    """The id of the request that replays it."""
    is_settled: bool = False
    """True once the transaction that wrote the effect removed the entry."""

    def settled(self) -> None:
        """Note that the entry is gone for good."""
        self.is_settled = True
