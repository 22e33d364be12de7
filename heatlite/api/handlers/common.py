"""Parts that handlers share: finding stacks, redirects and links to the next page."""

from http import HTTPStatus
from urllib.parse import urlencode

from falcon import Response

from heatlite.api import query, views
from heatlite.api.request import Request
from heatlite.core.errors import StackNotFound
from heatlite.core.status import Status, Verb
from heatlite.store.records import StackRecord
from heatlite.store.store import Store


class StackFinder:
    """Finds the stack that a URL names by name and id."""

    def __init__(self, store: Store) -> None:
        self._stacks = store.stacks

    def find(self, req: Request, stack_name: str, stack_id: str) -> StackRecord:
        """Return the stack of the caller's project, even if it was deleted.

        Raises StackNotFound.
        """
        stack = self._stacks.get(stack_id)
        if stack is None or stack.project != req.caller.project or stack.name != stack_name:
            raise StackNotFound(name=stack_name)
        return stack

    def find_live(self, req: Request, stack_name: str, stack_id: str) -> StackRecord:
        """Return the stack unless it was deleted. Raises StackNotFound."""
        stack = self.find(req, stack_name, stack_id)
        if stack.verb is Verb.DELETE and stack.status is Status.COMPLETE:
            raise StackNotFound(name=stack_name)
        return stack


def set_status(resp: Response, status: HTTPStatus) -> None:
    """Set the status, and a body that repeats it as Heat does."""
    resp.status = status
    resp.media = {"message": "", "code": f"{status.value} {status.phrase}", "title": status.phrase}


def redirect(req: Request, resp: Response, url: str) -> None:
    """Answer 302.

    Clients repeat the request there with any method, so the query is kept.
    """
    set_status(resp, HTTPStatus.FOUND)
    resp.location = f"{url}?{req.query_string}" if req.query_string else url


def next_page(req: Request, path: str, marker: str) -> str:
    """Return the URL of the page after `marker`. `path` is below the project."""
    rest = [(name, value) for name in req.params if name != "marker" for value in query.values(req, name)]
    return f"{views.project_url(req.base, req.caller.project)}/{path}?{urlencode([*rest, ('marker', marker)])}"
