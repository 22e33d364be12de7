"""Breakpoints: hooks at which a resource waits until somebody clears them (heat-engine §14).

A hook that was reached is in its row's token: after a crash the next engine goes on waiting. Clearing it is mail to the
action, which gets through while the action runs, and stays until the action has ended: after a crash the same hook
does not stop the work again.
"""

from collections.abc import Mapping, Sequence

from heatlite.core.status import Verb
from heatlite.engine.step import Work
from heatlite.store.mail import Mail
from heatlite.store.records import ActionRecord, ResourceRecord
from heatlite.template.environment import Environment

CONVERGING = frozenset({Verb.UPDATE, Verb.ROLLBACK, Verb.RESTORE})
STOPS_IN: Mapping[str, frozenset[Verb]] = {
    "pre-create": frozenset({Verb.CREATE}),
    "post-create": frozenset({Verb.CREATE}),
    "pre-update": CONVERGING,
    "post-update": CONVERGING,
    "pre-delete": frozenset({Verb.DELETE}),
    "post-delete": frozenset({Verb.DELETE}),
}
"""In which operations on the stack each hook counts: what an update creates or removes passes without."""


def verb_of(hook: str) -> Verb:
    """What the hook stands before or behind."""
    return Verb(hook.partition("-")[2].upper())


def reached_text(hook: str) -> str:
    """The event of a resource that waits from now on. Clients look for this text."""
    return f"{verb_of(hook)} paused until Hook {hook} is cleared"


def cleared_text(hook: str) -> str:
    """The event of the clearing. Clients look for this text."""
    return f"Hook {hook} is cleared"


def waits_at(row: ResourceRecord) -> str | None:
    """The hook at which the row waits."""
    hook = row.token.get("hook") if row.token is not None else None
    return hook if isinstance(hook, str) else None


def clearing(verb: Verb, hook: str, name: str) -> str:
    """The key of the mail that clears the hook of a resource while the stack's operation is `verb`."""
    return f"{verb} {hook} {name}"


class Breakpoints:
    """The hooks of one action. The mail is only looked at where there are any."""

    def __init__(self, mail: Mail, action: ActionRecord) -> None:
        self._mail = mail
        self._action = action
        self._cleared: frozenset[str] = frozenset()
        self._verb = Verb.INIT
        self._environment = Environment()

    def start(self, verb: Verb, environment: Environment) -> None:
        """From now on the stack's operation is `verb`, with the hooks of `environment`. Raises DatabaseUnavailable."""
        self._verb, self._environment = verb, environment
        if self._any:
            self._cleared = frozenset(self._mail.read(self._action.id))

    @property
    def _any(self) -> bool:
        return bool(self._environment.resource_registry.get("resources"))

    def stops(self, hook: str, row: ResourceRecord) -> bool:
        """Whether the resource has to wait at the hook, which it has just reached."""
        if hook not in self._environment.hooks(row.name) or self._verb not in STOPS_IN[hook]:
            return False
        if hook == "pre-update" and row.created_at > self._action.created_at:
            return False  # made by this action, before a crash
        return clearing(self._verb, hook, row.name) not in self._cleared

    def forget(self) -> None:
        """The action ends: remove its mail, in the caller's transaction."""
        if self._any:
            self._mail.clear(self._action.id)

    def let_go(self, works: Sequence[Work]) -> list[Work]:
        """Those of the works whose hooks have been cleared by now. Raises DatabaseUnavailable."""
        if not works:
            return []
        self._cleared = frozenset(self._mail.read(self._action.id))
        return [
            work
            for work in works
            if work.hook is not None and clearing(self._verb, work.hook, work.row.name) in self._cleared
        ]
