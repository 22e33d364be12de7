"""Log format and the ids that each record carries.

`begin` sets the ids of the request or action for the thread. All records carry them, also those of libraries and
resource types.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, Token, copy_context
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import ParamSpec, TypeAlias, TypeVar

from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.json import heat_text
from heatlite.core.redaction.masking import mask_record

IDS = ("request_id", "global_request_id", "action_id", "stack_id", "resource")
"""Ids that a record may carry, in display order."""

P = ParamSpec("P")
T = TypeVar("T")

Ids: TypeAlias = Mapping[str, str]

_ids: ContextVar[Ids] = ContextVar("ids")
_NONE: Ids = {}


class LogFormat(StrEnum):
    """Form of the log."""

    TEXT = "text"
    """Lines for people."""
    JSON = "json"
    """One JSON object per line, for log collectors."""


def begin(**ids: str | None) -> Token[Ids]:
    """Set the ids (of `IDS`) that this thread works for; None: no such id."""
    return _ids.set({name: value for name, value in ids.items() if value})


def end(token: Token[Ids]) -> None:
    """Restore the ids from before the `begin` that returned the token."""
    _ids.reset(token)


class logged:  # noqa: N801  # it reads as a word
    """Context that logs an unexpected error and goes on: the thread has other work.

    Errors of the classes `passing` leave it. `failed` is true if one was logged.
    """

    def __init__(
        self,
        log: logging.Logger,
        text: str,
        *args: object,
        passing: tuple[type[BaseException], ...] = (DatabaseUnavailable,),
    ) -> None:
        self.failed = False
        self._log = partial(log.error, text, *args)
        self._passing = passing

    def __enter__(self) -> "logged":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self.failed = isinstance(error, Exception) and not isinstance(error, self._passing)
        if self.failed:
            self._log(exc_info=error)
        return self.failed


class about:  # noqa: N801  # it reads as a word
    """Context in which records carry these ids besides the present ones.

    A class, not a generator, because each call of a handler enters it: it takes a third of the time.
    """

    __slots__ = ("_ids", "_token")

    def __init__(self, **ids: str | None) -> None:
        self._ids = ids

    def __enter__(self) -> None:
        self._token = _ids.set({**_ids.get(_NONE), **{name: value for name, value in self._ids.items() if value}})

    def __exit__(self, *_: object) -> None:
        _ids.reset(self._token)


class LoggingPool(ThreadPoolExecutor):
    """Thread pool whose jobs carry the ids of the submitting thread."""

    def submit(self, call: Callable[P, T], /, *args: P.args, **named: P.kwargs) -> Future[T]:
        """Submit a job with the ids of this thread."""
        return super().submit(copy_context().run, partial(call, *args, **named))


class CarryIds(logging.Filter):
    """Adds the ids of the thread to every record, and masks its secrets."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the ids. Returns True always. An id given as `extra` stays."""
        for name, value in _ids.get(_NONE).items():
            if name not in record.__dict__:
                setattr(record, name, value)
        mask_record(record)
        return True


def _carried(record: logging.LogRecord) -> dict[str, str]:
    return {name: str(record.__dict__[name]) for name in IDS if name in record.__dict__}


def _on_one_line(text: str) -> str:
    """Return a text with its line breaks and control characters escaped."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


class TextFormatter(logging.Formatter):
    """Text lines.

    ``[2026-11-21 02:44:00 +0000] [123] [INFO] [request_id=req-… action_id=…] message``
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s [%(process)d] [%(levelname)s] %(ids)s%(message)s", "[%Y-%m-%d %H:%M:%S %z]")
        self._last = (0, "")
        """A second and its text, which many lines share."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802  # its base's name
        """Return the second of the record."""
        second, text = self._last
        if second != int(record.created):
            text = super().formatTime(record, datefmt)
            self._last = (int(record.created), text)
        return text

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # its base's name
        """Return the line without the traceback that may follow it."""
        # Names and reasons are of users: their line breaks would forge further lines.
        joined = " ".join(f"{name}={_on_one_line(text)}" for name, text in _carried(record).items())
        record.message = _on_one_line(record.message)
        record.ids = f"[{joined}] " if joined else ""
        return super().formatMessage(record)


class JSONFormatter(logging.Formatter):
    """One JSON object per line.

    Time (ISO 8601, UTC), level, logger, message, process, the ids, and the traceback as `exception`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, str | int | None] = {
            "time": moment.removesuffix("+00:00") + "Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_carried(record),
        }
        if record.exc_info:
            line["exception"] = record.exc_text or self.formatException(record.exc_info)
        return heat_text({**line, "process": record.process})


_FORMATTERS: dict[LogFormat, type[logging.Formatter]] = {LogFormat.TEXT: TextFormatter, LogFormat.JSON: JSONFormatter}


def configure(form: LogFormat) -> None:
    """Write the log of this process to standard error, from INFO on.

    It includes the warnings of Python.
    """
    handler = logging.StreamHandler()
    handler.addFilter(CarryIds())
    handler.setFormatter(_FORMATTERS[form]())
    # No line shows file, function, thread or task. To find them takes a third of the time of a record.
    logging._srcfile = None  # documented for this purpose
    logging.logThreads = logging.logMultiprocessing = False
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.captureWarnings(True)
