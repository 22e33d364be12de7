"""The URL of the query API, which it shares with the version document."""

from collections.abc import Mapping

from falcon import Response

from heatlite.api.access.policy import OPEN
from heatlite.api.audit import AuditTrail
from heatlite.api.handlers.server import Versions
from heatlite.api.request import Request
from heatlite.core.errors import HeatliteError
from heatlite.features.query_api import answers
from heatlite.features.query_api.actions import QueryActions, QueryCall
from heatlite.features.query_api.callers import Callers
from heatlite.features.query_api.errors import Code, QueryError, refuse
from heatlite.features.query_api.parameters import QueryParameters, message_of

RULE = "cloudformation:"
"""Prefix of the rules of actions, as in Heat. An action needs the rule of the REST API as well."""


class QueryApi:
    """/v1/ with an Action."""

    def __init__(self, callers: Callers, actions: QueryActions, versions: Versions, trail: AuditTrail) -> None:
        self._callers = callers
        self._actions = actions
        self._versions = versions
        self._trail = trail

    def on_get(self, req: Request, resp: Response) -> None:
        """Run an action, or return the version document without a query."""
        if req.query_string:
            self._run(req, resp)
        else:
            self._versions.on_get_one(req, resp)

    def on_post(self, req: Request, resp: Response) -> None:
        """Run an action, whose parameters are in a form."""
        self._run(req, resp)

    def _run(self, req: Request, resp: Response) -> None:
        as_json = req.get_param("ContentType") == "JSON"
        try:
            message = message_of(req)
            given = QueryParameters([*message.query, *message.form])
            as_json = given.text("ContentType") == "JSON"
            name = given.text("Action")
            action = self._actions.table.get(name or "")
            if action is not None and action.changes:
                # A client may send it as GET, too.
                self._trail.follow(req)
                req.operation, req.parts = action.rule, _parts(given)
            reach = self._callers.admit(req, message)
            req.parts = {**req.parts, "project": req.caller.project}
            if name is None:
                raise QueryError(Code.MissingAction)
            if action is None:
                raise QueryError(Code.InvalidAction, action=name, known=", ".join(self._actions.table))
            req.require(RULE + name)
            req.require(action.rule)
            result = action.run(QueryCall(req, resp, given, reach))
            if not action.changes:
                req.operation = OPEN
            answers.write(resp, answers.answer(name, result, req.request_id), as_json)
        except HeatliteError as error:
            refuse(req, resp, error, as_json)


def _parts(given: QueryParameters) -> Mapping[str, str]:
    """Return what the audit log says about the target."""
    names = {"stack_name": given.text("StackName"), "resource_name": given.text("LogicalResourceId")}
    return {name: value for name, value in names.items() if value is not None}

