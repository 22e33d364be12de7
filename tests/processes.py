"""Processes that tests start with a function of Python."""

import multiprocessing
from multiprocessing.context import ForkServerContext


def fresh(*modules: str) -> ForkServerContext:
    """Return a context for processes with `modules` imported and without threads.

    A process of tests has threads. A child that it forks inherits locks that no thread will release there.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(modules))
    return context
