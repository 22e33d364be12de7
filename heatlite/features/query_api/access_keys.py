"""Access keys of users for the query API: list, create, delete."""

import secrets
from http import HTTPStatus

from falcon import Response

from heatlite.api.access.authentication import AccessControl
from heatlite.api.request import Request
from heatlite.core.clock import Clock, to_text
from heatlite.core.errors import EntityNotFound, NotSupported, RequestLimitExceeded
from heatlite.core.json import JsonMap
from heatlite.store.records import AccessKeyRecord
from heatlite.store.store import Store

PREFIX = "HLU"
"""Begin of the id of each key."""

MAX_KEYS = 100
"""Access keys of a user in a project."""


class AccessKeys:
    """P/access_keys.

    A user sees own keys, an administrator those of the whole project.
    """

    def __init__(self, store: Store, clock: Clock, access: AccessControl) -> None:
        self._store = store
        self._clock = clock
        self._access = access

    def on_get(self, req: Request, resp: Response) -> None:
        """List the keys, without their secrets."""
        resp.media = {"access_keys": [_shown(one) for one in self._visible(req)]}

    def on_post(self, req: Request, resp: Response) -> None:
        """Create a key. Only this answer has the secret."""
        if not self._access.has_own_keys:
            raise NotSupported("Keystone keeps the access keys here: openstack ec2 credentials create makes one.")
        caller = req.caller
        key_id, secret = PREFIX + secrets.token_hex(10).upper(), secrets.token_urlsafe(30)
        req.concerns(target=key_id)
        record = AccessKeyRecord(key_id, caller.project, caller.user, caller.roles, secret, self._clock.now())
        with self._store.transaction():
            self._store.limit_locks.take(f"access keys of {caller.project}")
            if sum(one.user == caller.user for one in self._visible(req)) >= MAX_KEYS:
                text = f"you have {MAX_KEYS} access keys in this project. Delete one first."
                raise RequestLimitExceeded(message=text)
            self._store.access_keys.insert(record)
        resp.status = HTTPStatus.CREATED
        resp.media = {"access_key": {**_shown(record), "secret": secret}}

    def on_delete_one(self, req: Request, resp: Response, key_id: str) -> None:
        """Revoke a key at once."""
        if not any(one.id == key_id for one in self._visible(req)):
            raise EntityNotFound(entity="Access key", name=key_id)
        with self._store.transaction():
            self._store.access_keys.delete(key_id)
        resp.status = HTTPStatus.NO_CONTENT

    def _visible(self, req: Request) -> list[AccessKeyRecord]:
        keys = self._store.access_keys.of_project(req.caller.project)
        return [one for one in keys if req.caller.is_admin or one.user == req.caller.user]


def _shown(record: AccessKeyRecord) -> JsonMap:
    return {
        "id": record.id,
        "project_id": record.project,
        "user": record.user,
        "roles": [*sorted(record.roles)],
        "created_at": to_text(record.created_at),
    }
