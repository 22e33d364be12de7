"""Settings of Python's garbage collector for long-lived processes."""

import gc


def freeze_loaded() -> None:
    """Exclude loaded code from garbage collection.

    With Python's defaults, a template of a thousand resources triggers full collections, which take five times as long
    as the request. Objects that are loaded now are permanent.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
