"""Errors by kind.

`api/faults.py` maps kinds to HTTP codes; the class name is the wire's `error.type`. A new error is a leaf of its kind
here and never edits the API; a conflict states its `ways`. A text that several places raise is the leaf's; other texts
stand at their `raise`. Leaves keep Heat's names, because clients match on them.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.json import JsonMap
from heatlite.core.wire.why import Holder, WayOut, words

MOST_NAMED = 10
"""Maximum number of names in a text."""


def abbreviated(names: Sequence[str], most: int = MOST_NAMED, separator: str = ", ") -> str:
    """Return names as a text; of many the first ones, and the number of the rest."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(names[:most]) + more


class Problem(Struct, frozen=True):
    """One fault of a template, an environment or a parameter.

    `path` leads to it (keys and list indexes); `error` is the wire name of the error that the API
    raises when this is the first problem; `line` and `column` count from 1 and are 0 while unknown.
    """

    path: tuple[str | int, ...]
    text: str
    hint: str = ""
    error: str = "StackValidationFailed"
    source: str = "template"
    line: int = 0
    column: int = 0
    severity: str = "error"

    @property
    def where(self) -> str:
        """``resources.a.properties.list[2]``."""
        out = ""
        for part in self.path:
            out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
        return out


class HeatliteError(Exception):
    """Anything that we tell a caller. `text` is a format string over the fields given."""

    text: ClassVar[str] = "An unknown error occurred."
    facts: JsonMap = {}
    """Further keys of the error in an answer."""
    headers: Mapping[str, str] = {}
    """Further headers of the answer."""

    def __init__(self, message: str | None = None, **fields: object) -> None:
        self.fields = fields
        self.message = message if message is not None else self.text.format(**fields)
        super().__init__(self.message)


class ErrorAnswer(Exception):
    """An API answered a request of ours with an error. `status` is the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


# -- kinds ---------------------------------------------------------------------------------------


class Invalid(HeatliteError):
    """The request makes no sense as it stands. Carries every problem that was found."""

    def __init__(self, message: str | None = None, problems: tuple[Problem, ...] = (), **fields: object) -> None:
        self.problems = problems
        super().__init__(message, **fields)


class Unauthorized(HeatliteError):
    """The caller is not authenticated.

    `challenge` tells how to authenticate (RFC 9110, WWW-Authenticate). `is_wrong`: the request has credentials.
    """

    text = "The request you have made requires authentication{what}."

    def __init__(self, challenge: str, is_wrong: bool | None = None) -> None:
        self.challenge = challenge
        wrong = ": its token, or its user and password, are wrong or have expired"
        super().__init__(what="" if is_wrong is None else wrong if is_wrong else ": it has no token and no password")


class TooManyFailures(HeatliteError):
    """Too many failed logins. `retry_after` is in seconds."""

    text = "Too many wrong passwords or signatures came from your address. Try again in {seconds} s."

    def __init__(self, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__(seconds=retry_after)


class Forbidden(HeatliteError):
    text = "You are not authorized to use {action}."


class NoCredential(Forbidden):
    """Nobody can tell whether the author of stored work still has the right to it."""

    text = (
        "The identity service confirms no stored credential of stack {stack_name}, so nobody can tell whether {user}"
        " may still do this."
    )


class NotFound(HeatliteError):
    text = "The {entity} ({name}) could not be found."


class Conflict(HeatliteError):
    """The target is in use.

    `retry_after` is in seconds where a retry makes sense. `holder` is what is in the way; None: the target of the
    request, as it now is. `way_out` replaces the steps of the class.
    """

    retry_after: int | None = None
    ignored_as: ClassVar[str] = "busy"
    """Reason that a signal without effect tells."""

    ways: ClassVar[Sequence[WayOut]] = ()
    """Steps that lead on.

    Texts and commands are format strings over the fields and `stack_name`. A tuple is several words of a command.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        holder: Holder | None = None,
        way_out: Sequence[WayOut] = (),
        **fields: object,
    ) -> None:
        super().__init__(message, **fields)
        self.holder = holder
        self.way_out = way_out

    def steps(self, names: Mapping[str, str]) -> list[WayOut]:
        """Return the steps that lead on.

        `names` has the `stack_name` of the request. A step that needs another name is left out.
        """
        if self.way_out:
            return [*self.way_out]
        known, found = {**names, **self.fields}, list[WayOut]()
        quoted = {name: words(*one) if isinstance(one, tuple) else words(str(one)) for name, one in known.items()}
        for one in self.ways:
            with suppress(KeyError):
                command = None if one.command is None else one.command.format(**quoted)
                found.append(replace(one, text=one.text.format(**known), command=command))
        return found


class Limit(HeatliteError):
    text = "You have reached a limit: {message}"


class Unsupported(HeatliteError):
    text = "{feature} is not supported."


class Unavailable(HeatliteError):
    """A service that heatlite needs is out of order; nothing was changed.

    A retry may help.

    `retry_after` is in seconds.
    """

    text = "{service} is not available now: {reason}"
    retry_after = 5


class Overloaded(Unavailable):
    """Too many requests, or too much data. The server did not look at the request."""

    text = "The server has too {much}. Try again later."

    def __init__(self, much: str, retry_after: int = Unavailable.retry_after) -> None:
        super().__init__(much=much)
        self.retry_after = retry_after


# -- leaves: forbidden ---------------------------------------------------------------------------


class HTTPForbidden(Forbidden):
    """The project of the URL is none of the caller's (Heat's wire name)."""

    text = "You are not authorized to use the project {project}."


# -- leaves: invalid -----------------------------------------------------------------------------


class HTTPBadRequest(Invalid):
    """A value of the request is refused; no other error fits (Heat's wire name)."""


class InvalidValue(Invalid):
    """A value that cannot be read as what it should be. Goes out as ValueError."""


class StackValidationFailed(Invalid):
    pass


class InvalidSchemaError(Invalid):
    pass


class InvalidTemplateReference(Invalid):
    text = 'The specified reference "{resource}" (in {key}) is incorrect.'


class InvalidTemplateAttribute(Invalid):
    text = "The Referenced Attribute ({resource} {key}) is incorrect."


class TemplateOutputError(Invalid):
    text = "Error in {resource} output {attribute}: {reason}"


class InvalidTemplateVersion(Invalid):
    text = "The template version is invalid: {explanation}"


class UnknownUserParameter(Invalid):
    text = "The Parameter ({key}) was not defined in template."


class UserParameterMissing(Invalid):
    text = "The Parameter ({key}) was not provided."


class ImmutableParameterModified(Invalid):
    text = "The following parameters are immutable and may not be updated: {keys}"


class CircularDependencyException(Invalid):
    text = "Circular Dependency Found: {cycle}"


class InvalidBreakPointHook(Invalid):
    pass


class InvalidLifecycleActionToken(Invalid):
    """No lifecycle action waits with this token."""


class InvalidRestrictedAction(Invalid):
    """The action is not allowed for this object in its present state."""


class InvalidExternalResourceDependency(Invalid):
    """A resource with an external_id depends on others."""


class ResourceTypeUnavailable(Invalid):
    text = "The resource type {type} is not available: {reason}"


class PhysicalResourceIDAmbiguity(Invalid):
    text = "Multiple resources were found with the physical ID ({phys_id})."


class MultipleChoices(Invalid):
    """A name, or the prefix of an id, matches several objects."""


# -- leaves: forbidden, not found ----------------------------------------------------------------


class InvalidTenant(Forbidden):
    text = "Searching Tenant {target} from Tenant {actual} forbidden."


class EntityNotFound(NotFound):
    pass


def features_off(names: Sequence[str]) -> str:
    """Return the hint that an unknown name may be of a feature that is off.

    "" for no features.
    """
    return f"Features that are off here: {', '.join(names)} (setting `features`)." if names else ""


class StackNotFound(EntityNotFound):
    """Goes out as EntityNotFound; see `wire_name`."""

    text = "The Stack ({name}) could not be found."


class ResourceNotFound(NotFound):
    text = "The Resource ({resource_name}) could not be found in Stack {stack_name}."


class ResourceNotAvailable(NotFound):
    text = "The Resource ({resource_name}) is not available."


class SnapshotNotFound(NotFound):
    text = "The Snapshot ({snapshot}) for Stack ({stack}) could not be found."


class OutputNotFound(NotFound):
    """Goes out as NotFound."""

    text = "Specified output key {key} not found."


class EventNotFound(NotFound):
    """Goes out as HTTPNotFound."""

    text = "No event {event_id} found"


# -- leaves: conflict ----------------------------------------------------------------------------

EXPLAINED = WayOut(text="tells why the stack is as it is, and what leads on", command="heatlite explain {stack_name}")


class StackExists(Conflict):
    text = "The Stack ({stack_name}) already exists."
    ways = (WayOut(text="updates the stack that has the name", command="heatlite up FILE -n {stack_name}"),)


class ActionInProgress(Conflict):
    text = "Stack {stack_name} already has an action ({action}) in progress."
    retry_after = 5
    ways = (EXPLAINED,)


class ResourceIsLocked(Conflict):
    """A running action holds the target, so the request fails at once."""

    text = (
        "Stack {stack_name} already has an action ({action}) in progress: action {action_id} has held it since {since}."
        " {way_on}."
    )
    retry_after = 5
    ways = (EXPLAINED,)


class ActionConflict(Conflict):
    """An action is queued or waiting on the target."""

    text = (
        "Stack {stack_name} already has an action ({action}) queued: action {action_id} since {since}."
        " {way_on}."
    )
    retry_after = 5
    ways = (EXPLAINED,)


class ActionCooldown(Conflict):
    """A group may not be scaled again yet."""

    text = "Group {group} is in its cooldown for {seconds} s more, and was not scaled. Try again then."
    ways = (WayOut(text="wait {seconds} s, or send it again with ignore_cooldown"),)


class ObjectOwned(Conflict):
    """A resource has the object already: an object has one owner."""

    ways = (WayOut(text="name an object that no resource has"),)


class NoMatch(Conflict):
    """A name or a filter matches no object."""

    ways = (WayOut(text="name an object that is there"),)


class AmbiguousMatch(Conflict):
    """A name or a filter matches several objects."""

    ways = (WayOut(text="name the object by its id"),)


class ObjectNotReady(Conflict):
    """An existing object is broken, or its service still works on it."""

    ways = (WayOut(text="wait until the object is ready, then send the request again"),)


class TemplateShared(Conflict):
    """A template of several resources, which an operation would change for one."""

    text = (
        "{path} has the template {file}, as {others}: a change of it would change these, too. Nothing was done. Give"
        " {path} a template of its own first."
    )
    ways = (WayOut(text="gives {path} a template of its own", command="heatlite up FILE -n {stack_name}"),)


class ImportDiffers(Conflict):
    """An existing object differs from its definition."""

    ways = (WayOut(text="correct the definition, or let the next update change the objects (changes: list)"),)


class SnapshotOutdated(Conflict):
    """A snapshot has what has moved since, and a restore cannot leave that out."""

    text = (
        "Snapshot {snapshot} of stack {stack_name} cannot be restored: {names}. Nothing was done. Move that back first,"
        " or update the stack from a template instead."
    )
    ways = (WayOut(text="updates the stack from a template", command="heatlite up FILE -n {stack_name}"),)


class NestedMember(Conflict):
    """A member is a nested stack: it is no object that leaves alone."""

    ways = (WayOut(text="shows the group and its members", command="heatlite resources {stack_name}"),)


class InsufficientRoom(Conflict):
    """A feature refuses an operation that needs more than there is."""

    ways = (WayOut(text="make room, or ask for less"),)


class NothingBakes(Conflict):
    """No update waits before its clean-up."""

    text = (
        "No update of stack {stack_name} bakes: its changes are not made yet, its clean-up has begun, or it has no"
        " guard. Nothing was done."
    )
    ways = (EXPLAINED,)


class PlanChanged(Conflict):
    """The plan is out of date: the operation would now differ from it."""

    text = (
        "The plan for stack {stack_name} is out of date: the operation would now differ. Nothing was"
        " done. Preview it again."
    )
    ways = (WayOut(text="shows the plan as it now is", command="heatlite plan FILE -n {stack_name}"),)


class RepairSpreads(Conflict):
    """A repair would make, replace or delete more than the selected resources."""

    text = (
        "The repair in stack {stack_name} would touch more than it is meant to: {paths}. Nothing was done. Preview it,"
        " then approve the plan by its digest, or update the stack."
    )
    ways = (WayOut(text="updates the whole stack", command="heatlite up FILE -n {stack_name}"),)


class StackLocked(Conflict):
    """A maintenance lock rejects the operation (docs/reference/lock.md)."""

    ignored_as = "locked"
    locked_at = 0.0
    """Time of the lock in seconds since the epoch."""
    lock = ""
    """Sentence that names the lock and stays true after it is lifted."""

    ways = (WayOut(text="shows the lock", command="heatlite lock-status {stack_name}"),)


class DeletionProtected(Conflict):
    """The operation would delete or replace something protected (decision 0024).

    Nothing was changed.
    """

    ways = (WayOut(text="tells what is protected, and how to lift that", command="heatlite explain {stack_name}"),)


class InvalidStackState(Conflict):
    """The stack is in a state from which the operation cannot start."""

    ways = (EXPLAINED,)


class ActionImmutable(Conflict):
    """An action that has ended takes no signals."""

    text = "Action {action_id} ({action}) has ended already, as {status}: {reason}. It takes no more signals."
    ways = (WayOut(text="shows its end", command="heatlite action show {action_id}"),)


class InvalidActionState(Conflict):
    """The action's state does not permit the signal."""

    text = "Action {action_id} ({action}) is {status}{control}: {hint}"
    ways = (WayOut(text="shows its state", command="heatlite action show {action_id}"),)


# -- leaves: limit, unsupported, unavailable ------------------------------------------------------


class RequestLimitExceeded(Limit):
    text = "Request limit exceeded: {message}"


class NotSupported(Unsupported):
    """A request that is not supported in the present state, as Heat answers it."""


class AbsentInMasses(Unavailable):
    text = "Most objects of {service} seem to be gone (absent_in_masses). Look at the cloud and the project first."


class ResourceActionNotSupported(Unsupported):
    text = "{action} is not supported for resource."


class ResourceActionRestricted(Unsupported):
    text = "{action} is restricted for resource."


class DatabaseUnavailable(Unavailable):
    text = "The database is unavailable: {reason}. Nothing was changed; try again."


class CommitUnanswered(DatabaseUnavailable):
    """The connection was lost during a commit, which the server may have done."""

    text = "The database is unavailable: {reason}. The change may have been made; look before you try again."


class DatabaseUnusable(DatabaseUnavailable):
    """The file of a SQLite database cannot be opened, is none, or has damaged pages."""

    text = "The database {path} cannot be used: {reason}. {way}, or give another with --database."


WIRE_NAMES: dict[type[HeatliteError], str] = {
    InvalidValue: "ValueError",
    StackNotFound: "EntityNotFound",
    OutputNotFound: "NotFound",
    EventNotFound: "HTTPNotFound",
    CommitUnanswered: "DatabaseUnavailable",
    DatabaseUnusable: "DatabaseUnavailable",
    NoCredential: "no_credential",
}


def wire_name(error: HeatliteError) -> str:
    """The `error.type` that clients see."""
    return WIRE_NAMES.get(type(error), type(error).__name__)
