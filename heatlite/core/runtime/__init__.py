"""Runtime of a process: logs, timer, bulkhead, meter, file locks, optional parts."""
