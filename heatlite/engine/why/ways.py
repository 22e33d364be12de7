"""Ways out of a fact: steps that the server would not refuse.

Others say what has to come first.
"""

from collections.abc import Sequence
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.errors import HeatliteError, StackLocked
from heatlite.core.json import JsonMap
from heatlite.core.status import ActionStatus, Status, Verb
from heatlite.core.wire.why import Fact, WayOut, words
from heatlite.engine.state import ways_out
from heatlite.engine.state.conflict_rules import UPDATES, Operation
from heatlite.engine.state.ways_out import stack_path
from heatlite.engine.why.tree import ExplainedTree
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord

PREVIEW = "/preview?plan=true"
"""Path, below that of a stack, of the plan of an operation."""
RESUME: JsonMap = {Operation.RESUME.value: None}
"""Body of the action that resumes a stack."""


class WayCall(Struct, frozen=True):
    """The request of a step."""

    method: str
    path: str
    body: JsonMap | None = None


class Ways:
    """Collects the ways out of one fact."""

    def __init__(self, tree: ExplainedTree) -> None:
        self._tree = tree
        self.steps: list[WayOut] = []

    def tell(self, text: str, command: str | None = None, after: int | None = None) -> int:
        """Add a step that is not a request. Returns its place."""
        return self._add(WayOut(text=text, command=command, after=after))

    def send(self, text: str, command: str, call: WayCall, after: int | None = None) -> int:
        """Add a request that nothing refuses after the step before it. Returns its place."""
        method, path, body = call.method, call.path, call.body
        return self._add(WayOut(text=text, command=command, method=method, path=path, body=body, after=after))

    def operation(
        self,
        operation: Operation,
        stack: StackRecord,
        text: str,
        command: str,
        call: WayCall | None = None,
        after: int | None = None,
    ) -> int | None:
        """Add an operation on a stack, after the steps that it needs. Returns its place.

        `after` is the place of one more. Without `call` it is a command only: others may refuse it, too. An operation
        that the state of the stack refuses is left out (None), unless a resume leads on.
        """
        if after is None:
            after = self._unprotected(operation)
        if (error := self._tree.refusal(operation, stack)) is not None:
            after = self._cleared(operation, stack, error, after)
            if after is None:
                return None
        return self._begin(text, command, call, after)

    def _begin(self, text: str, command: str, call: WayCall | None, after: int | None) -> int:
        return self.tell(text, command, after) if call is None else self.send(text, command, call, after)

    def act(
        self, operation: Operation, stack: StackRecord, text: str, command: str, options: JsonMap | None = None
    ) -> None:
        """Add an operation that is an action on a stack: its key is the operation's name."""
        self.request(operation, stack, ways_out.on_stack(stack, operation.value, text, command, options))

    def request(self, operation: Operation, stack: StackRecord, step: WayOut) -> int | None:
        """Add the request of an operation, after the steps that it needs.

        Returns as `operation`.
        """
        call = None if step.method is None or step.path is None else WayCall(step.method, step.path, step.body)
        return self.operation(operation, stack, step.text, step.command or "", call)

    def planned(
        self,
        operation: Operation,
        stack: StackRecord,
        text: str,
        command: str,
        body: JsonMap,
        is_update: bool = False,
        after: int | None = None,
    ) -> None:
        """Add a request that its plan may refuse, after a look at that plan.

        `body` is that of an action on the stack, or of an update with what is stored. `after` as in `after_look`.
        """
        method, rest = ("PATCH", "") if is_update else ("POST", "/actions")
        call, look = WayCall(method, stack_path(stack, rest), body), WayCall("PATCH", stack_path(stack, PREVIEW), body)
        self.after_look(operation, stack, text, command, call, look, after)

    def after_look(
        self,
        operation: Operation,
        stack: StackRecord,
        text: str,
        command: str,
        call: WayCall | None,
        look: WayCall,
        after: int | None = None,
        looks_always: bool = True,
    ) -> None:
        """Add an operation on a stack, after a request that shows what it would do.

        Without `call` its request needs the digest of that plan. `after` is the place of a step before both. Without
        `looks_always` the look is refused as the operation is.
        """
        if after is None:
            after = self._unprotected(operation)
        before, error = len(self.steps), self._tree.refusal(operation, stack)
        if error is not None and (error is self._tree.elsewhere or not looks_always):
            after = self._cleared(operation, stack, error, after)
            if after is not None:
                self._begin(text, command, call, self.look(look, after))
            return
        after = self.look(look, after)
        self.operation(operation, stack, text, command, call, after)
        if len(self.steps) == before + 1:
            self.steps.pop()

    def look(self, call: WayCall, after: int | None = None, more: str = "") -> int:
        """Add a request that shows a plan. Returns its place."""
        text = f"shows its plan{more}"
        return self._add(WayOut(text=text, method=call.method, path=call.path, body=call.body, after=after))

    def unlock(self, stack: StackRecord) -> int | None:
        """Add the step that lifts the lock of a stack.

        Returns its place. None: the caller cannot lift it.
        """
        lock = stack.lock
        if lock is not None and lock.by_admin and not self._tree.caller.is_admin:
            self.tell(f"An administrator has locked {stack.name}: ask one to lift the lock.")
            return None
        return self.request(Operation.UNLOCK, stack, ways_out.unlock(stack))

    def unprotect(self, path: str = "") -> None:
        """Add the steps that lift what is protected at a path and below."""
        for stack, row in self._tree.protected:
            place = self._tree.path(stack.id, "" if row is None else row.name) or ""
            if f"{place}/".startswith(f"{path}/" if path else ""):
                self.lift(stack, row)

    def unprotect_readers(self, stack_id: str, name: str) -> None:
        """Add the steps that lift what may be replaced together with a resource."""
        if self._tree.protected:
            for stack, reader in self._tree.readers(stack_id, name):
                self.unprotect(self._tree.path(stack.id, reader) or reader)

    def _unprotected(self, operation: Operation) -> int | None:
        """Add the steps that lift what an update may replace, as something is not well.

        Returns the place of the last one. None: there is nothing, or the operation is no such update.
        """
        before = len(self.steps)
        if operation in (Operation.UPDATE, Operation.RETRY) and self._tree.protected:
            for row in self._tree.unwell:
                self.unprotect(self._tree.path(row.stack_id, row.name) or row.name)
                self.unprotect_readers(row.stack_id, row.name)
        return len(self.steps) - 1 if len(self.steps) > before else None

    def lift(self, stack: StackRecord, row: ResourceRecord | None) -> None:
        """Add the step that lifts a protection."""
        self.request(Operation.UNPROTECT, stack, ways_out.unprotect(stack, None if row is None else row.name))

    def cancel(self, action: ActionRecord) -> None:
        """Add the step that cancels an action."""
        self._add(ways_out.cancel(action))

    def wait(self, action: ActionRecord) -> int:
        """Add the step of waiting for the end of an action. Returns its place."""
        return self._add(ways_out.wait(action))

    def resume(self, action: ActionRecord) -> int:
        """Add the step that continues a suspended action. Returns its place."""
        return self._add(ways_out.resume(action))

    def _cleared(
        self, operation: Operation, stack: StackRecord, error: HeatliteError, after: int | None
    ) -> int | None:
        """Add the steps that end what refuses an operation.

        Returns the place of the last one, or `after` if that comes after it. None: none leads on.
        """
        if error is self._tree.elsewhere:
            name = self._tree.root.name
            text = f"The objects of {name} are in another cloud than the one that is set here: this takes the latter."
            self.tell(text, f"heatlite up FILE -n {words(name)} --adopt-cloud")
            return None
        held = None if isinstance(error, StackLocked) else self._tree.holder(operation, stack)
        if isinstance(error, StackLocked):
            last = self._unlocked(operation, stack)
        else:
            last = self._resumed(operation, stack) if held is None else self._ended(held)
        return after if last is not None and self._follows(after, last) else last

    def _follows(self, after: int | None, first: int) -> bool:
        """Return whether a step comes after another one."""
        while after is not None and after != first:
            after = self.steps[after].after
        return after == first

    def _ended(self, action: ActionRecord) -> int:
        """Add the step that leads to the end of an action. Returns its place."""
        return self.resume(action) if action.status is ActionStatus.SUSPENDED else self.wait(action)

    def _resumed(self, operation: Operation, stack: StackRecord) -> int | None:
        """Add the step that resumes a suspended stack.

        Returns its place. None: the stack is not suspended, or does not refuse the operation for that.
        """
        if operation not in UPDATES or stack.state_without_lock != (Verb.SUSPEND, Status.COMPLETE):
            return None
        command = f"openstack stack resume {words(stack.name)}"
        call = WayCall("POST", stack_path(stack, "/actions"), RESUME)
        return self.send(f"resumes {stack.name}", command, call)

    def _unlocked(self, operation: Operation, stack: StackRecord) -> int | None:
        """Add the steps that lift the locks which refuse an operation.

        Returns the place of the last one. None: the caller cannot lift them, or they are being lifted.
        """
        around = [one for one in self._tree.around(stack) if one.lock is not None]
        if operation is Operation.UNLOCK:
            around = [one for one in around if one.id != stack.id]
        places = [self.unlock(one) for one in around]
        return places[-1] if places else None

    def _add(self, step: WayOut) -> int:
        for place, known in enumerate(self.steps):
            if replace(known, text="", after=None) == replace(step, text="", after=None) and known.command is not None:
                return place
        self.steps.append(step)
        return len(self.steps) - 1


def with_first(fact: Fact, steps: Sequence[WayOut]) -> Fact:
    """Return a fact with better ways out before its own."""
    moved = [one if one.after is None else replace(one, after=one.after + len(steps)) for one in fact.way_out]
    return replace(fact, way_out=[*steps, *moved])


def resource_path(path: str) -> str:
    """Return the path of a resource below its root in the API."""
    return f"/resources/{quote(path)}"
