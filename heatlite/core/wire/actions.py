"""Wire types of actions."""

from typing import Annotated

from msgspec import UNSET, UnsetType

from heatlite.core.json import AnyMap
from heatlite.core.status import ActionStatus, Control
from heatlite.core.wire.base import Answer, Count, Links, Time, column


class BegunAction(Answer, frozen=True):
    """Answer to a request that has begun an action."""

    id: Annotated[str, column(7)]
    """Id of the action, a UUID; its first characters tell it from others."""
    name: Annotated[str, column(8)]
    """``stack_update_1a2b3c4d``: what is done, and the end of the target's id. Several actions may have one name."""
    action: Annotated[str, column(1)]
    """The verb: ``STACK_CREATE``, ``STACK_UPDATE``, ``STACK_DELETE``, ``STACK_CHECK`` …"""
    target: Annotated[str, column(9)]
    """Id of the stack."""
    status: Annotated[ActionStatus, column(3)]
    """See the table above."""


class ActionContext(Answer, frozen=True):
    """The caller of an action."""

    user: str | None
    project: str
    roles: list[str]
    request_id: str


class Action(BegunAction, frozen=True):
    """An action with all that is shown of it."""

    operation: Annotated[str | None, column(2)]
    """Operation of an update: ``import``, ``detach``, ``move``, ``undo``, ``revert_drift`` or ``accept_drift``.

    ``null`` if ``action`` says all.
    """
    cause: Annotated[str, column(6)]
    """``RPC Request``: a request; ``Derived Action``: another action needs it.

    ``Scheduled Action``: its time has come.
    """
    status_reason: Annotated[str, column(5)]
    """Reason of the status."""
    control: Control | None
    """A signal that the action has not carried out yet: ``CANCEL``, ``SUSPEND`` …; else ``null``."""
    owner: str | None
    """Id of the worker that has the action; ``null`` if none has."""
    context: ActionContext
    """The caller: ``user``, ``project``, ``roles``, ``request_id``. Credentials are never shown."""
    created_at: Annotated[Time, column(4)]
    """Time at which the action was queued."""
    updated_at: Time | None
    """Time of the last change."""
    not_before: Time | None
    """The action is not begun before; ``null``: at once."""
    start_time: Time | None
    """Time of the first start by a worker."""
    stop_time: Annotated[Time | None, column(10)]
    """Time of the end."""
    end_time: Time | None
    """The same as ``stop_time``."""
    deadline: Time | None
    """Time at which the action times out; ``SUSPENDED`` time does not count."""
    timeout: float
    """Seconds that the action may take; 0: as many as ``default_action_timeout`` of the server says."""
    interval: float
    """Seconds after which it is done again; 0: never."""
    attempt: Count
    """Number of claims by workers, takeovers included."""
    retries: Count
    """Number of retries because of conflicts."""
    inputs: AnyMap
    """The options of the request: ``force``, ``converge``, ``retry``, the id of a ``snapshot``, ``level`` of a lock …

    ``parameters`` are those that a creation or an update has changed, hidden ones as ``******``, ``null`` for one that
    has its default again; long values are cut. What an adoption or a restore takes over is not shown.
    """
    outputs: AnyMap
    """Once it has ended: ``result`` (``OK``, ``ERROR``, ``CANCEL``, ``TIMEOUT``), and ``stack_status`` or ``error``.

    Of a scheduled action that was refused at its time also ``code``, the type of the error. Of a check also
    ``checked``: the numbers of resources that are ``healthy``, ``unhealthy``, ``unknown`` (they could not be looked at;
    ``causes`` has their number by cause), ``unsupported`` and ``drifted``. ``stale`` names those that had failed before
    and have no check. Of a change of members also ``added``, ``removed`` and ``replaced``. Of ``revert_drift``, and of
    an update with ``converge``, ``reverted``: the paths of what was put back; of ``accept_drift`` ``accepted``; of
    ``import`` and ``detach`` ``imported`` and ``detached``: types and ids by path; of ``move`` ``moved``: new names by
    the old ones.
    """
    data: AnyMap
    """Decisions and progress of the action.

    While the operation stops, ``stopping`` tells why (``cause``) and of the ``failures`` so far; a check has
    ``checked``, its results so far. Both go when the action ends.
    """
    parent: str | None
    """Id of the action that this one is derived from, or ``null``."""
    depends_on: list[str]
    """Ids of the actions that this one waits for, or waited; those derived from it are among them."""
    depended_by: list[str]
    """Ids of the actions that wait for this one; the parent of a derived action is one."""
    links: Links
    """``self``, and ``stack``: the target."""
    approval_id: str | UnsetType = UNSET
    """The approval that the action waits for, or that it needed. Others have no such key."""


class Transition(Answer, frozen=True, rename={"from_": "from"}):
    """A transition of an action."""

    time: Annotated[Time, column(1)]
    """Time of the transition."""
    from_: Annotated[ActionStatus, column(2)]
    """The status before."""
    to: Annotated[ActionStatus, column(3)]
    """The status after."""
    attempt: Annotated[Count, column(4)]
    """The attempt that the move belongs to."""
    owner: Annotated[str | None, column(5)]
    """The worker that had the action; ``null`` if none had."""
    reason: Annotated[str, column(6)]
    """Reason of the transition; may be empty."""
