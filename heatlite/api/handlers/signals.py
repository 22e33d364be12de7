"""Signals by machines that have a signed URL or a token, and nothing else (heat-api §14)."""

import falcon
from falcon import Response

from heatlite.api import bodies, query
from heatlite.api.access.policy import STACK_USER
from heatlite.api.handlers.handler import Handler
from heatlite.api.request import Request
from heatlite.core.context import Context

SIGNED = (
    r"/v1/(?P<form>signal|waitcondition)/arn:openstack:heat::(?P<project>[^:/]+)"
    r":stacks/(?P<stack_name>[^/]+)/(?P<stack_id>[^/]+)/resources/(?P<resource_name>[^/]+)$"
)
"""The ARN of a resource has slashes, so it is no single segment for the route table."""


class SignedSignals(Handler):
    """``/v1/signal/{ARN}`` and ``/v1/waitcondition/{ARN}``."""

    def by_arn(self, req: Request, resp: Response, **parts: str) -> None:
        """Tell the resource something; for a wait condition, answer with all that it has been told.

        `parts` are the groups of `SIGNED`.
        """
        if req.method not in ("POST", "PUT"):
            raise falcon.HTTPMethodNotAllowed(["POST", "PUT"])
        stack, row = self.signals.proven(query.proof(req), **parts)
        req.caller = Context(
            stack.project, user=row.physical_name, roles=frozenset({STACK_USER}), queued=req.queued
        )
        self.signals.signal(req.caller, stack, row, bodies.signal(req))
        if parts["form"] == "waitcondition":
            resp.media = {"resource": row.name, "metadata": self.reading.metadata(stack, row)}
        else:
            resp.text = "null"
