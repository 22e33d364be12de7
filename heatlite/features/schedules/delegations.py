"""Delegations: the rights of authors, for the time at which their work begins.

With Keystone, each schedule and each expiry has a trust of its own. Keystone refuses it once the author has lost a
role. Elsewhere the accounts that are kept here are asked.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from heatlite.clients.cloud import CloudError, CloudUnavailable
from heatlite.core.context import Context
from heatlite.core.errors import CommitUnanswered, NoCredential
from heatlite.core.json import JsonMap, parse
from heatlite.core.runtime.logs import logged
from heatlite.features.schedules.store.delegations import DelegationStore
from heatlite.store.errors import UnreadableSecret
from heatlite.store.records import StackRecord

if TYPE_CHECKING:
    from heatlite.api.components import Components

log = logging.getLogger(__name__)

PAUSE = 60.0
"""Seconds between two looks for released delegations."""


class Delegations:
    """Makes, asks and revokes delegations. Get it by `Components.of`."""

    def __init__(self, core: "Components") -> None:
        self._core = core
        self._store = core.store
        self._rows = core.store.of(DelegationStore)
        self._clouds = core.engine_services.services.clouds
        self.put, self.release = self._rows.put, self._rows.release
        self._due = 0.0

    @contextmanager
    def delegated(self, context: Context, stack: StackRecord) -> Iterator[JsonMap | None]:
        """Delegate the caller's rights; revoke them if the block raises an error.

        None: no credential is needed, or the caller cannot give one. Raises NoCredential, CloudUnavailable.
        """
        try:
            credential = self._clouds.delegate(context)
        except CloudUnavailable:
            raise
        except CloudError as error:
            raise NoCredential(stack_name=stack.name, user=context.user) from error
        try:
            yield credential
        except CommitUnanswered:
            raise  # it may be stored
        except BaseException:
            self._clouds.revoke(credential)
            raise

    def caller_now(self, context: Context, stack: StackRecord, credential: JsonMap | None) -> Context:
        """Return the caller with the rights that a credential has.

        Raises NoCredential, CloudUnavailable.
        """
        return self._core.author_now(context, stack, lambda: credential)

    def author_now(self, author: Context, stack: StackRecord, owner_id: str) -> Context:
        """Return the author of a schedule or an expiry with the rights that are left.

        Raises NoCredential, CloudUnavailable.
        """
        return self._core.author_now(author, stack, partial(self._rows.of, owner_id))

    def sweep(self, now: float) -> None:
        """Revoke what is released. Call it once a second. Raises DatabaseUnavailable."""
        if now < self._due:
            return
        self._due = now + PAUSE
        for delegation_id, content in self._rows.released():
            with logged(log, "cannot revoke delegation %s", delegation_id):
                if self._is_revoked(content):
                    with self._store.transaction():
                        self._rows.remove(delegation_id)

    def _is_revoked(self, content: str) -> bool:
        """Revoke a credential. Returns False if that is to be tried again."""
        try:
            credential: JsonMap = parse(self._store.encryption.decrypt(content))
        except UnreadableSecret as error:
            log.error("a delegation cannot be revoked: %s", error.message)
            return False
        return self._clouds.revoke(credential)
