"""Templates, and static files whose names have a hash."""

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import yaml
from jinja2 import Environment, FileSystemLoader
from msgspec import Struct

from heatlite.core.json import Json, JsonMap, dump
from heatlite.core.redaction.texts import without_format
from heatlite.features.dashboard.status import StatusLook, look

FOLDER = Path(__file__).parent
MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class StaticFile(Struct, frozen=True):
    """A static file in memory."""

    content: bytes
    media_type: str


@cache
def static_files() -> tuple[Mapping[str, str], Mapping[str, StaticFile]]:
    """Return names → names with a hash, and the latter → files."""
    names: dict[str, str] = {}
    files: dict[str, StaticFile] = {}
    folder = FOLDER / "static"
    for path in sorted(folder.rglob("*")):
        if path.suffix in MEDIA_TYPES:
            content = path.read_bytes()
            name = f"{path.stem}.{hashlib.sha256(content).hexdigest()[:12]}{path.suffix}"
            names[path.name] = name
            files[name] = StaticFile(content, MEDIA_TYPES[path.suffix])
    return names, files


def create_environment(folders: Sequence[Path]) -> Environment:
    """Create the environment of all templates. Every value is escaped.

    `folders` have those of features.
    """
    found = Environment(
        loader=FileSystemLoader([FOLDER / "templates", *folders]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_finalize,
    )
    found.filters.update(look=_look, operation=_operation, age=age, moment=moment, zoned=zoned)
    found.filters.update(shown=shown, yaml=as_yaml, json=dump, sh=shlex.quote)
    found.globals["static"] = lambda name: static_files()[0][name]
    return found


def _finalize(value: object) -> object:
    """Return a text with escapes for marks of direction.

    The filter ``e`` keeps the values of fields of forms as they are.
    """
    return without_format(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _look(status: Json) -> StatusLook:
    return look("" if status is None else str(status))


def _operation(action: JsonMap) -> str:
    """Return what an action does, in a word."""
    return str(action.get("operation") or action.get("action")).removeprefix("STACK_").lower()


def parsed(time: Json) -> datetime | None:
    """Parse a time of the API; None for anything else."""
    if not isinstance(time, str):
        return None
    try:
        found = datetime.fromisoformat(time)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def age(time: Json) -> str:
    """Return the time since a moment in its largest unit: ``5 min``."""
    found = parsed(time)
    if found is None:
        return "–"
    seconds = (datetime.now(UTC) - found).total_seconds()
    ahead, seconds = seconds < -1, abs(seconds)
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{'in ' if ahead else ''}{int(seconds // size)} {unit}"
    return f"in {int(seconds)} s" if ahead else f"{int(seconds)} s"


def moment(time: Json) -> str:
    """Return a time of the API for people: ``2026-11-21 18:00:00 UTC``."""
    found = parsed(time)
    return "–" if found is None else found.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def zoned(time: Json) -> str:
    """Return a time of the API with its zone.

    Some have none, and a browser takes those for its own.
    """
    found = parsed(time)
    return "" if found is None else found.isoformat()


def shown(value: Json) -> str:
    """Return a value on one line: text as it is, other values as JSON."""
    if value is None:
        return "–"
    return value if isinstance(value, str) else dump(value)


def as_yaml(value: Json) -> str:
    """Return a value as YAML; text as it is."""
    if isinstance(value, str):
        return value
    written: str = yaml.safe_dump(value, allow_unicode=True, sort_keys=False, default_flow_style=False)
    return written.removesuffix("...\n").rstrip()
