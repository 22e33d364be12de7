"""Handlers of resource types, the exceptions they raise, and their defaults."""

from msgspec import Struct

from heatlite.core.errors import ResourceActionNotSupported
from heatlite.core.json import Json, JsonMap
from heatlite.plugin.ports import Change

VERBS = ("create", "update", "delete", "check", "suspend", "resume", "snapshot", "lock", "unlock")
"""Verbs that a type may have handlers for."""


class ServiceConflict(Exception):
    """The service refuses now and may accept later (409).

    The engine tries again after some seconds. It first removes the remains of a failed create, by the handlers of
    delete.
    """


class ResourceInError(Exception):
    """The object was made but went to an error state; retried as a conflict.

    Raised by the handlers of create.
    """


class Unhealthy(Exception):
    """Raised by the handlers of check: the object is not there, or not well.

    The next update replaces it.

    Anything else that they raise says that the object could not be looked at: its health is unknown, and no update
    replaces it for that.
    """


class Absent(Unhealthy):
    """Raised by the handlers of check: the object is not there.

    Where most objects of a service are absent, the engine takes their health as unknown.
    """


class ReplaceResource(Exception):
    """The change needs a new object. Raised by `handle_update`."""


class NoActionNeeded(Exception):
    """Raised by `handle_signal` and `resized`: there is nothing to do.

    `reason` is a word for the sender, `retry_after` the seconds until the same signal may have an effect. `detail` is a
    sentence for the event.
    """

    def __init__(self, reason: str = "no_change", retry_after: int | None = None, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after
        self.detail = detail


class Resize(Struct, frozen=True):
    """Change of a group in the same stack, requested by a signal."""

    group: str
    """The group's reference: what get_resource gives."""
    wanted: JsonMap
    """Argument of the group's `resized`."""
    reason: str = ""
    """Reason in the event of the signal."""


class Handlers:
    """The handlers of a type. Each default does nothing, or refuses."""

    def handle_create(self) -> Json:
        """Make the object and set `physical_id`."""
        return None

    def check_create_complete(self, token: Json) -> bool | float:
        return True

    def handle_adopt(self) -> None:
        """Complete `data` after the adoption of an existing object.

        `physical_id` and `data` are those of the record, which may come from a Heat. Called again after a crash. Must
        not change the object.
        """

    def handle_update(self, change: Change) -> Json:
        """Make the change in place.
        Only called when every changed property is `update=True`."""
        if change.changed:
            raise ReplaceResource
        return None

    def check_update_complete(self, token: Json) -> bool | float:
        return True

    def handle_rebuild(self, change: Change) -> Json:
        """Rebuild the object in place with the new properties. It keeps its `physical_id`.

        The template or the environment asks for it by ``replacement: {order: rebuild}``. It takes the place of each
        replacement: after a change, a failure, or an unhealthy mark. A type without this handler is never asked.
        """
        return None

    def check_rebuild_complete(self, token: Json) -> bool | float:
        return True

    def handle_reboot(self) -> Json:
        """Restart the object, which keeps its `physical_id` and its properties.

        A repair asks for it. A type without this handler is repaired in another way.
        """
        return None

    def check_reboot_complete(self, token: Json) -> bool | float:
        return True

    def handle_delete(self) -> Json:
        """Remove the object. Called with whatever a failed create has left, too."""
        return None

    def handle_snapshot_delete(self) -> Json:
        """Save the object, then remove it: ``deletion_policy: Snapshot``.
        Its check is that of a delete."""
        return self.handle_delete()

    def check_delete_complete(self, token: Json) -> bool | float:
        return True

    def handle_check(self) -> Json:
        """Return if the object is healthy.

        Raise Absent if it is not there, Unhealthy if it is broken. Anything else that it raises means unknown.
        """
        return None

    def check_check_complete(self, token: Json) -> bool | float:
        return True

    def handle_suspend(self) -> Json:
        return None

    def check_suspend_complete(self, token: Json) -> bool | float:
        return True

    def handle_resume(self) -> Json:
        return None

    def check_resume_complete(self, token: Json) -> bool | float:
        return True

    def handle_snapshot(self, name: str) -> Json:
        """Save the object under `name`, which is the same after a crash.

        Store in `data` whatever finds it again.
        """
        return None

    def check_snapshot_complete(self, token: Json) -> bool | float:
        return True

    def handle_delete_snapshot(self) -> None:
        """Remove what was made for a snapshot; `data` is as it was when that was taken.
        MissingType is well."""

    @classmethod
    def restored(cls, properties: JsonMap, saved: JsonMap) -> JsonMap:  # noqa: ARG003
        """Return the properties with which a restore makes the object.
        `saved` is what was in `data` when the snapshot was taken."""
        return properties

    def handle_lock(self) -> Json:
        """Record whether the object is locked already; see the text of `resource`."""
        return None

    def check_lock_complete(self, token: Json) -> bool | float:
        """Lock the object."""
        return True

    def handle_unlock(self) -> Json:
        """Put back the state from before the lock."""
        return None

    def check_unlock_complete(self, token: Json) -> bool | float:
        return True

    def handle_cancel(self) -> None:
        """Give up the work of a handler, whose check is not called any more.
        Must not wait for anything."""

    def prepare_signal(self, details: JsonMap | None) -> JsonMap | None:
        """Make the calls to services that a signal needs, outside its transaction.

        Returns the details for `handle_signal`. Details that make no sense: InvalidValue. Raises CloudError.
        """
        return details

    def handle_signal(self, details: JsonMap | None) -> str | Resize | None:
        """Take a signal; see the text of `resource`.

        Raises ResourceActionNotSupported where the type takes none.

        Details that make no sense: InvalidValue.
        """
        raise ResourceActionNotSupported(action="signal")
