"""Signals to resources, from clients and from machines with a signed URL."""

import falcon
from falcon import Response

from heatlite.api import query
from heatlite.api.handlers.common import StackFinder, ignored
from heatlite.api.request import Request
from heatlite.api.wire import bodies
from heatlite.core.context import MACHINE, STACK_USER, Context
from heatlite.engine.operations.signals import Signals
from heatlite.engine.types.outputs import StackReader
from heatlite.plugin.signing import NATIVE

SIGNED = (
    r"/v1/(?P<form>signal|waitcondition)/arn:openstack:heat::(?P<project>[^:/]+)"
    r":stacks/(?P<stack_name>[^/]+)/(?P<stack_id>[^/]+)/resources/(?P<resource_name>[^/]+)$"
)
"""The slashes in the ARN of a resource prevent an ordinary route."""


class ResourceSignal:
    """S/resources/{resource_name}/signal."""

    def __init__(self, finder: StackFinder, reader: StackReader, signals: Signals) -> None:
        self._finder = finder
        self._reader = reader
        self._signals = signals

    def on_post(self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str) -> None:
        """Signal a resource. A signed URL needs no other authentication."""
        details, proof = bodies.signal(req), query.proof(req)
        if proof.signature:
            project = req.caller.project
            stack, row = self._signals.proven(proof, NATIVE, project, stack_name, stack_id, resource_name)
            req.prove(row.physical_name)
        else:
            stack = self._finder.find_live(req, stack_name, stack_id)
            stack, row = self._reader.resource_at(stack, resource_name)
        ignored(resp, self._signals.signal(req.caller, stack, row, details, query.flag(req, query.FAIL_FAST)))
        resp.text = "null"


class SignedSignals:
    """``/v1/signal/{ARN}`` and ``/v1/waitcondition/{ARN}``."""

    def __init__(self, reader: StackReader, signals: Signals) -> None:
        self._reader = reader
        self._signals = signals

    def by_arn(self, req: Request, resp: Response, **parts: str) -> None:
        """Signal a resource. The answer for a wait condition holds all signals so far.

        `parts` are the groups of `SIGNED`.
        """
        if req.method not in ("POST", "PUT"):
            raise falcon.HTTPMethodNotAllowed(["POST", "PUT"])
        stack, row = self._signals.proven(query.proof(req), **parts)
        roles = frozenset({STACK_USER})
        req.caller = Context(stack.project, user=f"{MACHINE}{row.physical_name}", roles=roles, queued=req.queued)
        fail_fast = query.flag(req, query.FAIL_FAST)
        ignored(resp, self._signals.signal(req.caller, stack, row, bodies.signal(req), fail_fast))
        if parts["form"] == "waitcondition":
            resp.media = {"resource": row.name, "metadata": self._reader.metadata(stack, row)}
        else:
            resp.text = "null"
