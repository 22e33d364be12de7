"""On the path of a process that is to die, or to freeze.

FAULTS_DIE_AT says between which commit and its dispatch it dies. FAULTS_FREEZE names a file: once that is there, the
next transaction that has an action's stack stops the process in the middle, and the file is gone.
"""

import os
import signal
from pathlib import Path
from typing import Any

if "FAULTS_DIE_AT" in os.environ:
    from heatlite.engine.dispatch.distributed import CeleryDispatcher
    from heatlite.store.records import Announcement

    left = int(os.environ["FAULTS_DIE_AT"])
    announce = CeleryDispatcher.announce

    def die(self: CeleryDispatcher, announcement: Announcement) -> None:
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        announce(self, announcement)

    CeleryDispatcher.announce = die  # type: ignore[method-assign]

if "FAULTS_FREEZE" in os.environ:
    from heatlite.store.actions.claims import Claims

    trigger = Path(os.environ["FAULTS_FREEZE"])
    advance = Claims.begin_commit

    def freeze(self: Claims, *given: Any) -> Any:
        found = advance(self, *given)
        if trigger.exists():
            trigger.unlink()
            os.killpg(0, signal.SIGSTOP)
        return found

    Claims.begin_commit = freeze  # type: ignore[method-assign]
