"""The door: who asks, whether he belongs into the project of the URL, and whether he may do what he asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from heatlite.api import query
from heatlite.api.access.policy import OPEN, PROVEN, SIGNAL, STACK_USER, Policy
from heatlite.api.request import Request
from heatlite.core.context import ADMIN, Context, Replay
from heatlite.core.errors import HTTPForbidden, Unauthorized
from heatlite.engine.outbound.self_auth import HEADER, Ourselves
from heatlite.engine.state.agent_accounts import Accounts

SECRETS = {"token": "HTTP_X_AUTH_TOKEN", "username": "HTTP_X_AUTH_USER", "password": "HTTP_X_AUTH_KEY"}
"""What clients prove themselves with; python-heatclient sends the latter two where it has a password."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody who has proved who he is."""

    user: str
    projects: Mapping[str, frozenset[str]]
    """Project → his roles in it."""
    user_id: str = ""
    user_domain_id: str = ""
    project_domain_id: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What is needed for work on his behalf (`Context.secrets`)."""


class Authenticator(Protocol):
    """Finds out who asks."""

    challenge: str
    """The header WWW-Authenticate for whoever has not proved it."""

    def identify(self, req: Request) -> Identity | None:
        """None: he does not say who he is, or cannot prove it.

        Raises Unavailable where nobody can tell now.
        """


class AccessControl:
    """Lets requests into projects.

    Without an authenticator everybody is let in everywhere, as an administrator.
    """

    def __init__(
        self,
        authenticator: Authenticator | None,
        policy: Policy,
        ourselves: Ourselves | None,
        accounts: Accounts | None,
    ) -> None:
        self._authenticator = authenticator
        self._policy = policy
        self._ourselves = ourselves
        self._accounts = accounts

    @property
    def is_guarded(self) -> bool:
        """Whether people are asked who they are."""
        return self._authenticator is not None

    def admit(self, req: Request, project: str | None, rule: str | None, named: Mapping[str, str]) -> None:
        """Set the caller of a request below a project (None: of one below none), if he may do what the rule names.

        `named` is what else the path names: a stack, a resource. No rule: a method that nobody has. Raises
        Unauthorized, Forbidden, Unavailable.
        """
        if rule == OPEN:
            return
        if rule == PROVEN or rule == SIGNAL and query.proof(req).signature:
            # A machine with a signed URL has no account; the handler looks whether the signature is right.
            caller, rule = self._one_of_ours(req, project or "", STACK_USER, STACK_USER), None
            req.caller = self._ruled(caller)
        else:
            req.caller = self._caller(req, project or "", named)
        if req.replay is not None:
            req.caller = self._replaying(req.caller, req.replay)
        if rule is not None:
            req.require(rule)

    def _caller(self, req: Request, project: str, named: Mapping[str, str]) -> Context:
        if self._authenticator is None:
            everybody = Context(project, request_id=req.request_id, secrets=secrets_of(req), queued=req.queued)
            return self._ruled(everybody)
        claim = req.get_header(HEADER)
        if claim and self._ourselves and self._ourselves.sent(project, claim):
            return self._ruled(self._one_of_ours(req, project, "heatlite", "member"))
        identity = self._authenticator.identify(req)
        if identity is None:
            raise Unauthorized(challenge=self._authenticator.challenge)
        agent = self._agent(req, identity, project, named)
        if agent is not None:
            return agent
        everywhere = [self._context(req, identity, own) for own in identity.projects]
        here = next((caller for caller in everywhere if caller.project == project), None)
        admin = next((caller for caller in everywhere if caller.is_admin), None)
        if here is not None and (here.is_admin or admin is None):
            return self._person(here)
        if admin is None:
            raise HTTPForbidden(project=project)
        # His token is good for his own project: what is done with it would land there.
        return self._person(replace(admin, project=project, project_domain_id="", secrets={}))

    def _agent(self, req: Request, identity: Identity, project: str, named: Mapping[str, str]) -> Context | None:
        """Somebody whose account was made for a resource, in the project of its stack; None: he is nobody of these.

        He may do what agents may where the path names that resource, or its stack, and nothing anywhere else.
        """
        if self._accounts is None or not any(STACK_USER in roles for roles in identity.projects.values()):
            return None
        place = self._accounts.place(identity.user_id)
        if place is None or project not in (place.project, *identity.projects):
            return None
        agent = replace(self._one_of_ours(req, place.project, identity.user, STACK_USER), user_id=identity.user_id)
        return self._ruled(agent) if place.holds(named) else replace(agent, may=lambda _rule: False)

    def _person(self, caller: Context) -> Context:
        """Where agents have accounts, their role opens nothing to others."""
        if self._accounts is None or STACK_USER not in caller.roles:
            return self._ruled(caller)
        # A policy may also say what the role forbids, so both are asked.
        return self._ruled(caller, replace(caller, roles=caller.roles - {STACK_USER}))

    def _ruled(self, caller: Context, *also: Context) -> Context:
        """Somebody who may do what the policy says of him, and of `also`."""
        return replace(caller, may=lambda rule: all(self._policy.allows(rule, one) for one in (caller, *also)))

    def _replaying(self, caller: Context, replay: Replay) -> Context:
        """The caller with no more rights than the author of the replayed request had.

        The caller's token goes along only where the author is the same: it would open more than the author may.
        """
        author = self._ruled(replay.author)
        replay.author = author
        same = (author.user, author.user_id) == (caller.user, caller.user_id)
        return replace(
            caller,
            roles=author.roles if caller.is_admin else author.roles - {ADMIN},
            secrets=caller.secrets if same else {},
            may=lambda rule: caller.may(rule) and author.may(rule),
            replay=replay,
        )

    @staticmethod
    def _one_of_ours(req: Request, project: str, user: str, role: str) -> Context:
        """Somebody without an account."""
        return Context(project, user, frozenset({role}), req.request_id, queued=req.queued)

    def _context(self, req: Request, identity: Identity, project: str) -> Context:
        """Him in one of his own projects.

        Whether he is an administrator is the policy's word, and shows in his roles
        from here on."""
        caller = Context(
            project=project,
            user=identity.user,
            roles=identity.projects[project],
            request_id=req.request_id,
            user_id=identity.user_id,
            user_domain_id=identity.user_domain_id,
            project_domain_id=identity.project_domain_id,
            secrets=identity.secrets,
            queued=req.queued,
        )
        is_admin = self._policy.is_admin(caller)
        return replace(caller, roles=caller.roles | {ADMIN} if is_admin else caller.roles - {ADMIN})


def secrets_of(req: Request) -> dict[str, str]:
    """What the caller sent to prove himself with, whether it does or not."""
    return {name: req.env[key] for name, key in SECRETS.items() if req.env.get(key)}
