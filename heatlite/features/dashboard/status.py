"""Looks of statuses: a word, an icon and a tone, so that colour is never alone."""

from msgspec import Struct


class StatusLook(Struct, frozen=True):
    """The look of a status."""

    tone: str
    """CSS class: ok, bad, warn, run, off."""
    icon: str
    """Name of a shape in ``macros.html``."""
    word: str


_LOOKS = {
    ("ok", "check"): "COMPLETE SUCCEEDED DONE UP HEALTHY CLOSED",
    ("bad", "cross"): "FAILED LOST DOWN UNREACHABLE UNHEALTHY MARKED",
    ("run", "half"): "PROGRESS RUNNING REPAIRING SETTLING REGISTERED NEW READY",
    ("warn", "wait"): "WAITING COMPLETION APPROVE SCHEDULE PROPOSED HELD INIT",
    ("warn", "pause"): "SUSPENDED",
    ("warn", "alert"): "SUSPECTED OBSERVED CONFIRMED UNKNOWN OPEN",
    ("lock", "lock"): "LOCKED ALL STACKS",
}
_WORDS = {word: shape for shape, words in _LOOKS.items() for word in words.split()}

_NAMES = {"PENDING_APPROVE": "waiting for approval", "PENDING_SCHEDULE": "to be sent", "INIT": "not due yet"}


def look(status: str) -> StatusLook:
    """Return the look of a status such as ``UPDATE_FAILED``. The last word decides."""
    if status == "LOCK_COMPLETE":
        return StatusLook("lock", "lock", "locked")
    if status == "INIT_COMPLETE":
        return StatusLook("off", "ring", "not made yet")
    word = _NAMES.get(status) or status.replace("_", " ").lower()
    tone, icon = _WORDS.get(status.upper().rpartition("_")[2], ("off", "ring"))
    return StatusLook(tone, icon, word)
