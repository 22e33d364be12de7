"""Access control: authenticates a caller, and checks the project and the rule."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec.structs import replace

from heatlite.api import query
from heatlite.api.access.policy import OPEN, PROVEN, SIGNAL, Policy
from heatlite.api.request import Request
from heatlite.core.context import ADMIN, MACHINE, STACK_USER, Context, Replay
from heatlite.core.errors import Forbidden, HTTPForbidden, Unauthorized
from heatlite.core.json import JsonMap
from heatlite.core.redaction.secret_fields import HidesSecrets
from heatlite.engine.outbound.self_auth import HEADER, SelfAuth
from heatlite.engine.types.agent_accounts import Accounts

TOKEN = "HTTP_X_AUTH_TOKEN"
CREDENTIALS = (TOKEN, "HTTP_X_AUTH_USER", "HTTP_X_AUTH_KEY")
"""Headers with credentials. python-heatclient sends user and key if it has a password."""


class Identity(HidesSecrets, frozen=True):
    """An authenticated user."""

    secret_fields = frozenset({"token"})

    user: str
    projects: Mapping[str, frozenset[str]]
    """Projects → roles in them."""
    user_id: str = ""
    user_domain_id: str = ""
    project_domain_id: str = ""
    token: str = ""
    """Token for work on behalf of the user (`Context.token`)."""


class Authenticator(Protocol):
    """Authenticates requests."""

    challenge: str
    """The header WWW-Authenticate of a 401."""

    def identify(self, req: Request) -> Identity | None:
        """Return the user, or None without valid credentials. Raises Unavailable."""

    def roles(self, user: str, project: str) -> frozenset[str]:
        """Return the present roles of a user, as far as the accounts are kept here."""


class Login(HidesSecrets, frozen=True):
    """A user who has logged in elsewhere."""

    secret_fields = frozenset({"token"})

    user: str
    token: str
    """Opens no project."""
    projects: Mapping[str, str]
    """Projects → names."""


class PasswordLogin(Protocol):
    """Logs users in whose accounts are kept elsewhere."""

    def log_in(self, req: Request, user: str, password: str, domain: str) -> Login | None:
        """Return the login; None for a wrong password.

        Raises TooManyFailures, Unavailable.
        """

    def token_of(self, token: str, project: str) -> str | None:
        """Return a token that opens a project; None if refused. Raises Unavailable."""


@runtime_checkable
class HasPasswordLogin(Protocol):
    """An authenticator of tokens that also knows passwords."""

    login: PasswordLogin


@runtime_checkable
class SignatureAuthority(Authenticator, Protocol):
    """An authenticator that keeps the access keys of its users."""

    def exchange(self, credentials: JsonMap) -> tuple[str, str] | None:
        """Return token and project for a signed request; None for a wrong signature.

        Raises Unavailable.
        """


class Credentials(Protocol):
    """A kind of credentials that are not those of users."""

    def caller(self, req: Request, project: str, named: Mapping[str, str]) -> Context | None:
        """Return the caller of a request with such credentials, else None.

        Raises Unauthorized, HTTPForbidden.
        """


class AccessControl:
    """Admits requests to projects.

    Without an authenticator, every caller is an administrator.
    """

    def __init__(
        self,
        authenticator: Authenticator | None,
        policy: Policy,
        self_auth: SelfAuth | None,
        accounts: Accounts | None,
        others: Sequence[Credentials] = (),
    ) -> None:
        self._authenticator = authenticator
        self._policy = policy
        self._self_auth = self_auth
        self._accounts = accounts
        self._others = others

    @property
    def is_guarded(self) -> bool:
        """True if callers are authenticated."""
        return self._authenticator is not None

    @property
    def password_login(self) -> PasswordLogin | None:
        """The login by name and password, if callers bring tokens from elsewhere."""
        return self._authenticator.login if isinstance(self._authenticator, HasPasswordLogin) else None

    def identify(self, req: Request) -> Identity | None:
        """Return the user of a request, or None without valid credentials.

        Raises Unavailable, TooManyFailures. Needs `is_guarded`.
        """
        assert self._authenticator is not None
        return self._authenticator.identify(req)

    @property
    def has_own_keys(self) -> bool:
        """True if access keys of users are kept here, and not by Keystone."""
        return not isinstance(self._authenticator, SignatureAuthority)

    def admit(self, req: Request, project: str | None, rule: str | None, named: Mapping[str, str]) -> None:
        """Set the caller of a request, and check that it has the right.

        `project` is that of the path, or None. `named` are the stack and resource of the path. `rule` is None for a
        method that the route lacks. Raises Unauthorized, Forbidden, Unavailable.
        """
        if rule == OPEN:
            return
        self._take_bearer(req)
        if rule == PROVEN or rule == SIGNAL and query.proof(req).signature:
            # A machine with a signed URL has no account; the handler checks the signature.
            caller, rule = self._internal(req, project or "", STACK_USER, STACK_USER), None
            req.caller, req.is_proven = self._ruled(caller), False
        else:
            req.caller = self._caller(req, project or "", named)
        if req.replay is not None:
            req.caller = self._replaying(req.caller, req.replay)
        if rule is not None:
            req.require(rule)

    def admit_user(self, req: Request, user: str, project: str, roles: frozenset[str]) -> None:
        """Set the caller of a request that an access key of a user has proven.

        The caller has those of the key's roles that the user still has. Raises HTTPForbidden if there are none left.
        """
        if self._authenticator is None:
            req.caller = self._ruled(Context(project, request_id=req.request_id, queued=req.queued))
            return
        left = roles & self._authenticator.roles(user, project)
        if not left:
            raise HTTPForbidden(project=project)
        req.caller = self._user(self._context(req, Identity(user, {project: left}), project))

    def admit_machine(self, req: Request, physical_name: str, project: str) -> None:
        """Set the caller of a request that the access key of a machine has proven."""
        req.caller = self._ruled(self._internal(req, project, f"{MACHINE}{physical_name}", STACK_USER))

    def admit_signed(self, req: Request, credentials: JsonMap) -> bool:
        """Set the caller of a request that is signed with a key of Keystone.

        False if there is no Keystone, or it does not accept the signature. Raises Unavailable, Forbidden.
        """
        authority = self._authenticator
        found = authority.exchange(credentials) if isinstance(authority, SignatureAuthority) else None
        if found is None:
            return False
        req.env[TOKEN], project = found
        self.admit(req, project, None, {})
        return True

    def author_now(self, author: Context, confirm: Callable[[], None]) -> Context:
        """Return the author of stored work, with the rights that are left.

        These are the stored rights that the author still has.

        `confirm` asks the identity service for it, where that keeps the accounts, and raises an error if they are gone.
        """
        if self._authenticator is not None:
            if self.has_own_keys:
                roles = author.roles & self._authenticator.roles(author.user, author.project)
                author = replace(author, roles=roles)
            else:
                confirm()
        return self._ruled(author)

    @staticmethod
    def _take_bearer(req: Request) -> None:
        """Let ``Authorization: Bearer`` (RFC 6750) mean what X-Auth-Token means."""
        scheme, _, token = req.env.get("HTTP_AUTHORIZATION", "").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            req.env.setdefault(TOKEN, token.strip())

    def _caller(self, req: Request, project: str, named: Mapping[str, str]) -> Context:
        for one in self._others:
            other = one.caller(req, project, named)
            if other is not None:
                return other
        if self._authenticator is None:
            anonymous = Context(project, request_id=req.request_id, queued=req.queued)
            return self._ruled(anonymous)
        claim = req.get_header(HEADER)
        if claim and self._self_auth and self._self_auth.verify(project, claim):
            return self._ruled(self._internal(req, project, "heatlite", "member"))
        identity = self._authenticator.identify(req)
        if identity is None:
            is_wrong = any(map(req.env.get, CREDENTIALS)) or req.auth is not None
            raise Unauthorized(self._authenticator.challenge, is_wrong)
        agent = self._agent(req, identity, project, named)
        if agent is not None:
            return agent
        everywhere = [self._context(req, identity, own) for own in identity.projects]
        here = next((caller for caller in everywhere if caller.project == project), None)
        admin = next((caller for caller in everywhere if caller.is_admin), None)
        if here is not None and (here.is_admin or admin is None):
            return self._user(here)
        if admin is None:
            raise HTTPForbidden(project=project)
        # The token is valid for its own project only: objects made with it would be created there.
        return self._user(replace(admin, project=project, project_domain_id="", token=""))

    def _agent(self, req: Request, identity: Identity, project: str, named: Mapping[str, str]) -> Context | None:
        """Return the context of an agent; None for other users.

        An agent's account was made for a resource. It has rights on paths that name the resource or its stack, and none
        elsewhere.
        """
        if self._accounts is None or not any(STACK_USER in roles for roles in identity.projects.values()):
            return None
        place = self._accounts.place(identity.user_id)
        if place is None or project not in (place.project, *identity.projects):
            return None
        machine = self._internal(req, place.project, f"{MACHINE}{identity.user}", STACK_USER)
        agent = replace(machine, user_id=identity.user_id)
        return self._ruled(agent) if place.holds(named) else replace(agent, may=lambda _rule: False)

    def _user(self, caller: Context) -> Context:
        """Apply the policy to a user.

        If agents have accounts, other users gain nothing from their role.
        """
        if self._accounts is None or STACK_USER not in caller.roles:
            return self._ruled(caller)
        # A policy may also forbid by role, so check with and without it.
        return self._ruled(caller, replace(caller, roles=caller.roles - {STACK_USER}))

    def _ruled(self, caller: Context, *also: Context) -> Context:
        """Return the caller with the rights that the policy grants it and all of `also`."""
        return replace(caller, may=lambda rule: all(self._policy.allows(rule, one) for one in (caller, *also)))

    def _replaying(self, caller: Context, replay: Replay) -> Context:
        """Return the caller with the rights of the replayed request's author at most.

        Keeps the caller's credentials only if both are the same user: they might permit more than the author may do.
        """
        author = self._ruled(replay.author)
        replay.author = author
        same = (author.user, author.user_id) == (caller.user, caller.user_id)
        return replace(
            caller,
            roles=author.roles if caller.is_admin else author.roles - {ADMIN},
            token=caller.token if same else "",
            may=lambda rule: caller.may(rule) and author.may(rule),
            replay=replay,
        )

    @staticmethod
    def _internal(req: Request, project: str, user: str, role: str) -> Context:
        """Return the context of a caller without an account."""
        return Context(project, user, frozenset({role}), req.request_id, queued=req.queued)

    def _context(self, req: Request, identity: Identity, project: str) -> Context:
        """Return the context of a user in one of its projects.

        The policy decides if the user is an administrator; the roles show that from here on. Raises Forbidden for the
        name of a machine.
        """
        if identity.user.startswith(MACHINE):
            raise Forbidden(f"A name that begins with {MACHINE} is that of a machine. Rename the account.")
        caller = Context(
            project=project,
            user=identity.user,
            roles=identity.projects[project],
            request_id=req.request_id,
            user_id=identity.user_id,
            user_domain_id=identity.user_domain_id,
            project_domain_id=identity.project_domain_id,
            token=identity.token,
            queued=req.queued,
            granted=identity.projects[project],
        )
        is_admin = self._policy.is_admin(caller)
        return replace(caller, roles=caller.roles | {ADMIN} if is_admin else caller.roles - {ADMIN})
