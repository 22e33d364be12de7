"""Variants of the example's file that fail in one way each, and a slow one."""

import os
import signal

from example_heatlite_plugin import File

from heatlite.plugin import Change, Json

HELD = "held.lock"
"""While a file of this name lies beside them, sick files cannot be deleted."""


class Kept(File, type="Crash::Kept"):
    """Is kept after a failed change."""

    def needs_replace_failed(self) -> bool:
        return False


class Refusing(File, type="Crash::Refusing"):
    """Refuse changes to `fail` and back to ``first``; a failed file is replaced."""

    def handle_update(self, change: Change) -> None:
        if self.props.fail or self.props.content == "first":
            raise ValueError("refused")
        super().handle_update(change)


class Sick(File, type="Crash::Sick"):
    """Fails in the operations that its content names; cannot be deleted while held."""

    def _fail_in(self, operation: str) -> None:
        if operation in self.path.read_text().split():
            raise RuntimeError(f"too sick to {operation}")

    def handle_delete(self) -> None:
        if self.path.with_name(HELD).exists():
            raise RuntimeError("held")
        super().handle_delete()

    def handle_check(self) -> None:
        self._fail_in("check")

    def handle_suspend(self) -> None:
        self._fail_in("suspend")

    def handle_resume(self) -> None:
        self._fail_in("resume")

    def handle_snapshot(self, name: str) -> None:
        self._fail_in("snapshot")

    def handle_lock(self) -> None:
        self._fail_in("lock")

    def handle_unlock(self) -> None:
        self._fail_in("unlock")

    def check_lock_complete(self, token: Json) -> bool:
        return True

    def check_unlock_complete(self, token: Json) -> bool:
        return True


class Slow(File, type="Crash::Slow"):
    """Needs `slow_secs` for whatever is done to it."""

    def _begin(self) -> Json:
        return self.facts.now() + self.props.slow_secs

    def _is_over(self, token: Json) -> bool | float:
        left = (token if isinstance(token, int | float) else 0) - self.facts.now()
        return left if left > 0 else True

    def handle_update(self, change: Change) -> Json:  # type: ignore[override]
        super().handle_update(change)
        return self._begin()

    def check_update_complete(self, token: Json) -> bool | float:
        return self._is_over(token)

    def handle_delete(self) -> Json:  # type: ignore[override]
        super().handle_delete()
        return self._begin()

    def check_delete_complete(self, token: Json) -> bool | float:
        return self._is_over(token)

    def handle_snapshot(self, name: str) -> Json:  # type: ignore[override]
        super().handle_snapshot(name)
        return self._begin()

    def check_snapshot_complete(self, token: Json) -> bool | float:
        return self._is_over(token)

    def handle_suspend(self) -> Json:  # type: ignore[override]
        return self._begin()

    def check_suspend_complete(self, token: Json) -> bool | float:
        return self._is_over(token)

    def handle_resume(self) -> Json:  # type: ignore[override]
        return self._begin()

    def check_resume_complete(self, token: Json) -> bool | float:
        return self._is_over(token)


class Lethal(File, type="Crash::Lethal"):
    """Ends its process when it is made, as a library that crashes does."""

    def handle_create(self) -> Json:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("nobody survives that")
