"""Accounts of agents in Keystone's stack domain (docs/decisions/0014)."""

import logging
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from heatlite.clients.cloud import Cloud, CloudError
from heatlite.core.errors import EntityNotFound, ResourceTypeUnavailable, StackNotFound
from heatlite.core.redaction.masking import learn
from heatlite.plugin.ports import Account
from heatlite.plugin.registry import Registry
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Schema
from heatlite.store.errors import Duplicate
from heatlite.store.records import AccountRecord, StackRecord, StackSummary
from heatlite.store.store import Store

if TYPE_CHECKING:
    from heatlite.clients.stack_domain import StackDomain

log = logging.getLogger(__name__)


class AccountOwner(Struct, frozen=True):
    """The resource that an account belongs to."""

    project: str
    stack_id: str
    stack_name: str
    resource_name: str
    objects: frozenset[str]
    """The ids of the resource's object; of two while it is replaced."""

    def holds(self, named: Mapping[str, str]) -> bool:
        """True if all names in the request's path are those of this resource."""
        known = {
            "stack_name": {self.stack_name, self.stack_id},
            "stack_id": {self.stack_id},
            "resource_name": {self.resource_name},
            "server_id": self.objects,
        }
        return bool(named) and all(value in known.get(name, ()) for name, value in named.items())


class Accounts:
    """Creates, finds and removes accounts.

    Resource types see them as `plugin.ports.Accounts`.
    """

    def __init__(self, store: Store, domain: "StackDomain") -> None:
        self._store = store
        self._domain = domain

    def of(self, stack_id: str, physical_name: str) -> Account | None:
        """Return the account of a resource; None without one."""
        kept = self._store.accounts.get(stack_id, physical_name)
        if kept is None or kept.user_id is None or kept.project_id is None:
            return None
        return Account(
            auth_url=self._domain.auth_url,
            user_id=kept.user_id,
            username=kept.physical_name,
            password=kept.password,
            project_id=kept.project_id,
            domain=self._domain.domain,
            region=self._domain.region,
        )

    def cloud(self, account: Account) -> Cloud:
        """Return the cloud as an account sees it. Raises CloudError."""
        return self._domain.agent(account.user_id, account.password, account.project_id)

    def place(self, user_id: str) -> AccountOwner | None:
        """Return the resource that a user's account belongs to.

        None if it no longer exists, also if another one has its name.
        """
        kept = self._store.accounts.of_user(user_id)
        stack = None if kept is None else self._store.stacks.get(kept.stack_id)
        if kept is None or stack is None or stack.deleted_at is not None:
            return None
        rows = self._store.resources.by_name(stack.id, [kept.resource_name])
        if all(row.physical_name != kept.physical_name for row in rows):
            return None  # its object has left the stack alive
        objects = frozenset(row.physical_id for row in rows if row.physical_id is not None)
        return AccountOwner(stack.project, stack.id, stack.name, kept.resource_name, objects)

    def projects(self, stacks: Iterable[StackRecord | StackSummary]) -> dict[str, str]:
        """Return the stack-domain projects by stack, for stacks whose trees have one."""
        roots = {stack.id: stack.root_id or stack.id for stack in stacks}
        found = self._store.accounts.projects({*roots.values()})
        return {stack_id: found[root] for stack_id, root in roots.items() if root in found}

    # -- making and removing -----------------------------------------------------------------------

    def settle(self, resource: Resource[Schema]) -> None:
        """Create the account of a resource that needs one.

        One that it no longer needs stays until its object is deleted: the agent learns with it that its settings have
        changed. A stack that is not sealed predates the stack domain: it gets accounts with its next update. Raises
        CloudError.
        """
        facts = resource.facts
        kept = self._store.accounts.get(facts.stack_id, facts.physical_name)
        stack = self._store.stacks.get(facts.stack_id)
        if stack is None or stack.deleted_at is not None:
            self.close(resource)
            return
        if not stack.sealed or not resource.wants_account():
            return
        root_id = stack.root_id or stack.id
        if kept is None:
            kept = AccountRecord(stack.id, root_id, facts.name, facts.physical_name, secrets.token_urlsafe(24))
            learn(kept.password)
            with self._store.transaction():
                self._store.accounts.insert(kept)
        if kept.user_id is None:
            project_id = self._project(root_id)
            about = f"The agent of resource {facts.name} of stack {stack.id}"
            user_id = self._domain.user(kept.physical_name, kept.password, project_id, about)
            with self._store.transaction():
                self._store.accounts.record_ids(replace(kept, user_id=user_id, project_id=project_id))
                is_known = self._store.accounts.get(kept.stack_id, kept.physical_name) is not None
            if not is_known:
                # This attempt has lost its action, and the new owner has removed the resource.
                self._domain.remove("user", kept.physical_name, user_id)

    def _project(self, root_id: str) -> str:
        found = self._store.accounts.projects([root_id]).get(root_id)
        if found is None:
            if not self._store.accounts.has_project(root_id):
                with suppress(Duplicate), self._store.transaction():  # another resource of the tree has created it
                    self._store.accounts.add_project(root_id)
            found = self._domain.project(root_id, f"The agents of stack {root_id}")
            with self._store.transaction():
                self._store.accounts.record_project(root_id, found)
                is_known = self._store.accounts.has_project(root_id)
            if not is_known:  # as in `settle`, and the whole stack is gone
                self._domain.remove("project", root_id, found)
                raise StackNotFound(name=root_id)
        return found

    def close(self, resource: Resource[Schema]) -> None:
        """Remove a resource's account, if it has one. Raises CloudError."""
        kept = self._store.accounts.get(resource.facts.stack_id, resource.facts.physical_name)
        if kept is not None:
            self._remove(kept)

    def _remove(self, kept: AccountRecord) -> None:
        self._domain.remove("user", kept.physical_name, kept.user_id)
        with self._store.transaction():
            self._store.accounts.delete(kept)

    def close_all(self, stack: StackRecord) -> None:
        """Remove the accounts of a deleted stack, and the project of a root.

        Logs failures of Keystone.
        """
        try:
            for kept in self._store.accounts.of_stack(stack.id):
                self._remove(kept)
            if self._store.accounts.has_project(stack.id):
                self._domain.remove("project", stack.id, self._store.accounts.projects([stack.id]).get(stack.id))
        except CloudError as error:
            log.warning("Accounts of the deleted stack %s are left in the stack domain: %s", stack.id, error)


def may_want(types: Registry, names: Iterable[str]) -> bool:
    """True if a resource of one of these types may need an account."""
    for name in names:
        with suppress(EntityNotFound, ResourceTypeUnavailable):
            if types.get(name).has("wants_account"):
                return True
    return False
