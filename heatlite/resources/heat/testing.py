"""A type with configurable behaviour, for tests of templates and of the engine."""

import time

from heatlite.core.json import Json
from heatlite.core.runtime.bulkhead import check_may_wait
from heatlite.plugin import Change, Resource, Schema, SupportStatus, Unhealthy, prop
from heatlite.resources.heat.delay import wait_until

MAX_ATTRIBUTE_WAIT = 5
"""Maximum seconds of waiting for an attribute, because a read may block a thread of the server."""


class ActionWaitSecs(Schema):
    create: float | None = prop(update=True, doc="Seconds that a create takes.")
    update_: float | None = prop(update=True, alias="update", doc="Seconds that an update of the value takes.")
    delete: float | None = prop(update=True, doc="Seconds that a delete takes.")
    check_: float | None = prop(update=True, alias="check", doc="Seconds that a check takes.")
    lock: float | None = prop(update=True, doc="Seconds that a lock takes.")
    unlock: float | None = prop(update=True, doc="Seconds that an unlock takes.")


class TestResourceProps(Schema):
    value: str = prop("test_string", update=True, doc="The text to store.")
    fail: bool = prop(False, update=True, doc="True if create, update and check fail, after their waiting time.")
    fail_lock: bool = prop(False, update=True, doc="True if a lock fails, after its waiting time.")
    fail_unlock: bool = prop(False, update=True, doc="True if an unlock fails, after its waiting time.")
    update_replace: bool = prop(False, update=True, doc="True if another value replaces the resource.")
    update_replace_value: str | None = prop(doc="Any change of it replaces the resource.")
    wait_secs: float = prop(0, update=True, doc="Seconds that create, update and delete take; below 0 never ends.")
    action_wait_secs: ActionWaitSecs | None = prop(
        update=True, doc="Seconds that single actions take, instead of wait_secs; below 0 never ends."
    )
    live_value: str | None = prop(
        update=True, doc="Another text that checks find until the value is changed; for tests of check."
    )
    attr_wait_secs: float = prop(
        0, update=True, doc=f"Seconds that reading the attribute takes, {MAX_ATTRIBUTE_WAIT} at the most."
    )
    constraint_prop_secs: float = prop(
        0, custom="test_constr", update=True, doc="Accepted as in Heat, without effect: validation never waits."
    )
    client_name: str = prop("", update=True, doc="Accepted as in Heat, without effect.")
    entity_name: str = prop("", update=True, doc="Accepted as in Heat, without effect.")


class TestResource(Resource[TestResourceProps], type="OS::Heat::TestResource"):
    """Stores a text; takes time or fails as its properties say. For tests only."""

    __test__ = False  # keeps pytest from collecting it by its name
    support_status = SupportStatus(version="5.0.0")

    def _start(self, seconds: float | None) -> Json:
        seconds = self.props.wait_secs if seconds is None else seconds
        return {"until": self.facts.now() + seconds if seconds >= 0 else None}

    def _ended(self, token: Json, fail: bool) -> bool | float:
        answer = wait_until(token.get("until") if isinstance(token, dict) else 0, self.facts.now())
        if answer is True and fail:
            raise ValueError(f"Test Resource failed {self.name}")
        return answer

    def needs_check(self, verb: str, token: Json) -> bool:
        """False if a create, update or delete succeeds without a wait."""
        fails = self.props.fail and verb != "delete"
        return fails or verb not in ("create", "update", "delete") or self._ended(token, fail=False) is not True

    def needs_replace(self, change: Change) -> bool:
        return "value" in change.changed and change.after.get("update_replace") is True

    def live_properties(self) -> dict[str, Json]:
        return {"value": self.data["live"]} if "live" in self.data else {}

    def _drift(self) -> None:
        if self.props.live_value is not None:
            self.data["live"] = self.props.live_value

    def handle_create(self) -> Json:
        if not self.props.fail:
            self.data["value"] = self.props.value
            self.physical_id = self.physical_name
            self._drift()
        waits = self.props.action_wait_secs
        return self._start(waits.create if waits else None)

    def check_create_complete(self, token: Json) -> bool | float:
        return self._ended(token, self.props.fail)

    check_update_complete = check_create_complete

    def handle_update(self, change: Change) -> Json:
        if "live_value" in change.changed:
            self._drift()
        if "value" not in change.changed:
            return self._start(0)
        if not self.props.fail:
            self.data["value"] = self.props.value
            self.data.pop("live", None)
        waits = self.props.action_wait_secs
        return self._start(waits.update_ if waits else None)

    def handle_delete(self) -> Json:
        waits = self.props.action_wait_secs
        return self._start(waits.delete if waits else None)

    def check_delete_complete(self, token: Json) -> bool | float:
        return self._ended(token, fail=False)

    def handle_check(self) -> Json:
        waits = self.props.action_wait_secs
        return self._start(waits.check_ if waits and waits.check_ is not None else 0)

    def check_check_complete(self, token: Json) -> bool | float:
        try:
            return self._ended(token, self.props.fail)
        except ValueError as error:
            raise Unhealthy(str(error)) from error

    def handle_lock(self) -> Json:
        self.data.setdefault("was_locked", self.data.get("locked", False))
        waits = self.props.action_wait_secs
        return self._start(waits.lock if waits and waits.lock is not None else 0)

    def check_lock_complete(self, token: Json) -> bool | float:
        answer = self._ended(token, self.props.fail_lock)
        if answer is True:
            self.data["locked"] = True
        return answer

    def handle_unlock(self) -> Json:
        waits = self.props.action_wait_secs
        return self._start(waits.unlock if waits and waits.unlock is not None else 0)

    def check_unlock_complete(self, token: Json) -> bool | float:
        answer = self._ended(token, self.props.fail_unlock)
        if answer is True and "was_locked" in self.data:
            self.data["locked"] = self.data.pop("was_locked")
        return answer

    def attr_output(self) -> Json:
        """The stored text."""
        if self.props.attr_wait_secs > 0:
            check_may_wait()
            time.sleep(min(self.props.attr_wait_secs, MAX_ATTRIBUTE_WAIT))
        return self.data.get("value")
