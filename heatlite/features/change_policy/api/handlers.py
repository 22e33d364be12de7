"""The change policies of a project and of a stack."""

from http import HTTPStatus

from falcon import Response
from msgspec import to_builtins

from heatlite.api.handlers.common import StackFinder
from heatlite.api.request import Request
from heatlite.api.wire import bodies
from heatlite.core.clock import to_text
from heatlite.core.json import JsonMap
from heatlite.features.change_policy.document import PolicyOrigin, ProjectDocument, StackDocument, read_document
from heatlite.features.change_policy.operations import ChangePolicies, ShownPolicy

POLICY = "change_policy"
"""The name of a project's policy in the audit log."""


class ProjectPolicy:
    """P/change_policy."""

    def __init__(self, policies: ChangePolicies) -> None:
        self._policies = policies

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the policy of the project."""
        resp.media = shown(self._policies.get(req.caller.project))

    def on_put(self, req: Request, resp: Response) -> None:
        """Replace the policy."""
        req.concerns(target=POLICY)
        self._policies.put(req.caller, read_document(bodies.read(req), ProjectDocument))
        self.on_get(req, resp)

    def on_delete(self, req: Request, resp: Response) -> None:
        """Remove the policy."""
        req.concerns(target=POLICY)
        self._policies.delete(req.caller)
        resp.status = HTTPStatus.NO_CONTENT


class StackPolicy:
    """S/change_policy."""

    def __init__(self, finder: StackFinder, policies: ChangePolicies) -> None:
        self._finder = finder
        self._policies = policies

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Show the policy of a root stack."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        resp.media = shown(self._policies.get(stack.project, stack))

    def on_put(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Replace the policy."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        self._policies.put(req.caller, read_document(bodies.read(req), StackDocument), stack)
        self.on_get(req, resp, stack_name, stack_id)

    def on_delete(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Remove the policy."""
        self._policies.delete(req.caller, self._finder.find_live(req, stack_name, stack_id))
        resp.status = HTTPStatus.NO_CONTENT


def shown(found: ShownPolicy) -> JsonMap:
    """Return the answer about a policy."""
    record, origins, rules = found.record, found.effective.origins, found.effective.rules
    guard, grants = found.effective.guard, found.effective.grants
    return {
        "change_policy": record.document,
        "version": record.version,
        "updated_by": record.updated_by,
        "updated_at": to_text(record.updated_at),
        "effective": {
            **{
                key: {"value": getattr(found.effective.policy, key), "from": origin.value}
                for key, origin in origins.items()
            },
            "guard": {
                "value": None if guard is None else to_builtins(guard),
                "from": (PolicyOrigin.DEFAULT if guard is None else PolicyOrigin.STACK).value,
            },
            "grants": {
                "value": to_builtins(grants),
                "from": (PolicyOrigin.STACK if grants else PolicyOrigin.DEFAULT).value,
            },
            "rules": {
                "value": [{"name": one.rule.name, "from": one.origin.value} for one in rules],
                "from": (rules[-1].origin if rules else PolicyOrigin.DEFAULT).value,
            },
        },
    }
