"""On the path of a process that is to die between a commit and its dispatch: FAULTS_DIE_AT says at which one."""

import os
import signal

if "FAULTS_DIE_AT" in os.environ:
    from heatlite.engine.dispatch.distributed import Distributed
    from heatlite.store.records import Announcement

    left = int(os.environ["FAULTS_DIE_AT"])
    announce = Distributed.announce

    def die(self: Distributed, announcement: Announcement) -> None:
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        announce(self, announcement)

    Distributed.announce = die  # type: ignore[method-assign]
