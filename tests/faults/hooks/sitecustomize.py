"""On the path of a process that is to die, or to freeze.

FAULTS_DIE_AT says between which commit and its dispatch it dies. FAULTS_FREEZE names a file with the id of a stack.
Once that is there, the next transaction of an action of this stack stops the process in the middle.
The file is gone then.
"""

import os
import signal
import threading
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
    from heatlite.store.records import ActionRecord

    trigger = Path(os.environ["FAULTS_FREEZE"])
    advance = Claims.begin_commit

    def freeze(self: Claims, action: ActionRecord, *given: Any) -> Any:
        found = advance(self, action, *given)
        if trigger.exists() and trigger.read_text() == action.stack_id:
            trigger.unlink()
            # To this thread: another one may take the process's signal late, and this one would go on to the commit.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        return found

    Claims.begin_commit = freeze  # type: ignore[method-assign]
