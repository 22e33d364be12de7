"""Parts that handlers share: finding stacks, redirects and links to the next page."""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import urlencode

from falcon import Response

from heatlite.api import query
from heatlite.api.middleware import IGNORED
from heatlite.api.request import Request
from heatlite.api.wire import views
from heatlite.core.errors import StackNotFound
from heatlite.core.json import JsonMap, size
from heatlite.core.status import Status, Verb
from heatlite.store.records import StackRecord
from heatlite.store.store import Store

Row = TypeVar("Row")

MAX_PAGE = 1000
"""Rows of a page of actions, or of the audit log."""


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
        req.stack = stack
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


def ignored(resp: Response, reason: object) -> None:
    """Say in a header why a signal or a mark had no effect. None: it had one."""
    if reason is not None:
        resp.set_header(IGNORED, str(reason))


def redirect(req: Request, resp: Response, url: str) -> None:
    """Answer 302.

    Clients repeat the request there with any method, so the query is kept.
    """
    set_status(resp, HTTPStatus.FOUND)
    resp.location = f"{url}?{req.query_string}" if req.query_string else url


class ListBudget:
    """Size of the values in a list, against `max_stack_data`."""

    def __init__(self, most: int) -> None:
        """`most` is in characters of JSON."""
        self._most = most
        self._left = most

    @property
    def is_spent(self) -> bool:
        """True if the values so far are too large."""
        return self._left < 0

    def fits(self, value: JsonMap) -> bool:
        """Count a value; return whether the list has room for it."""
        if not self.is_spent:
            self._left -= size(value, self._left)
        return not self.is_spent

    @property
    def reason(self) -> str:
        """The reason for which values are left out."""
        return f"The values of the list come to more than {self._most} characters of JSON (max_stack_data)."


def page_size(req: Request, most: int) -> int:
    """Return the query's `limit`, up to `most`. Raises HTTPBadRequest."""
    limit = query.number(req, "limit")
    return most if limit is None else min(limit, most)


def page(
    req: Request, path: str, found: Sequence[Row], limit: int, show: Callable[[Row], JsonMap], key: Callable[[Row], str]
) -> JsonMap:
    """Return a page of a list, with a link to the next one.

    `found` has one more than `limit` if there is a next page. The last word of `path`, which is below the project, is
    the name of the list. `key` returns the marker of an entry.
    """
    listed: JsonMap = {path.rpartition("/")[2]: [show(one) for one in found[:limit]]}
    if 0 < limit < len(found):
        listed["links"] = [views.link("next", next_page(req, path, key(found[limit - 1])))]
    return listed


def next_page(req: Request, path: str, marker: str) -> str:
    """Return the URL of the page after `marker`. `path` is below the project."""
    rest = [(name, value) for name in req.params if name != "marker" for value in query.values(req, name)]
    return f"{views.project_url(req.base, req.caller.project)}/{path}?{urlencode([*rest, ('marker', marker)])}"
