"""Operations to disturb, each on its own stack, and their possible end states."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.context import Context
from heatlite.core.status import Verb
from heatlite.engine.state.requests import StackRequest
from heatlite.store.records import StackRecord
from heatlite.store.stacks.stack_query import StackQuery
from heatlite.wiring import Embedded
from tests.crash.scenarios import CHANGED_TREE, FAILING, FILES, FIRST, SECOND, TREE, done, groups

CALLER = Context("demo")


class Operation(Struct, frozen=True):
    """A request for a stack.

    `before` is its earlier template; None: there is no stack.
    """

    verb: Verb
    after: StackRequest
    before: StackRequest | None = None
    ends: str = ""
    """The state in which it ends; "": COMPLETE."""

    @property
    def states(self) -> set[str]:
        """The final state of the stack, or the one before if the request was refused."""
        return {self.ends or done(self.verb)} | ({done(Verb.CREATE)} if self.before else set())


OPERATIONS = {
    "create": Operation(Verb.CREATE, StackRequest(template=FIRST)),
    "rolled-back-create": Operation(
        Verb.CREATE, StackRequest(template=FAILING, disable_rollback=False), ends=done(Verb.ROLLBACK)
    ),
    "update": Operation(Verb.UPDATE, StackRequest(template=SECOND), StackRequest(template=FIRST)),
    "delete": Operation(Verb.DELETE, StackRequest(), StackRequest(template=FIRST)),
    "check": Operation(Verb.CHECK, StackRequest(), StackRequest(template=FIRST)),
    "tree-create": Operation(Verb.CREATE, StackRequest(template=TREE, files=FILES)),
    "tree-update": Operation(
        Verb.UPDATE, StackRequest(template=CHANGED_TREE, files=FILES), StackRequest(template=TREE, files=FILES)
    ),
    "tree-delete": Operation(Verb.DELETE, StackRequest(), StackRequest(template=TREE, files=FILES)),
    "group-update": Operation(
        Verb.UPDATE, StackRequest(template=groups(2, "two")), StackRequest(template=groups(2, "one"))
    ),
}


def zoned(request: StackRequest, name: str, zone: str) -> StackRequest:
    """The request for a stack whose work is done by the workers of a zone."""
    return replace(request, name=name, tags=(f"zone:{zone}",))


def find(server: Embedded, name: str) -> StackRecord | None:
    """The newest stack of that name."""
    query = StackQuery(filters={"name": [name]}, show_deleted=True)
    found = server.store.stacks.list(CALLER.project, query)
    return server.store.stacks.get(found[0].id) if found else None


def prepare(server: Embedded, operation: Operation, name: str, zone: str) -> None:
    """Ask for the stack as it is before."""
    if operation.before is not None:
        server.stacks.create(CALLER, zoned(operation.before, name, zone))


def ask(server: Embedded, operation: Operation, name: str, zone: str) -> None:
    """Ask for the operation."""
    stack = find(server, name)
    request = zoned(operation.after, name, zone)
    if stack is None:
        server.stacks.create(CALLER, request)
        return
    what: dict[Verb, Callable[[], object]] = {
        Verb.UPDATE: lambda: server.stacks.update(CALLER, stack, replace(request, name=None), False),
        Verb.DELETE: lambda: server.stacks.delete(CALLER, stack),
        Verb.CHECK: lambda: server.stacks.check(CALLER, stack),
    }
    what[operation.verb]()
