"""Environment files of an installation, which hold for all its stacks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from heatlite.core.errors import HeatliteError, Invalid
from heatlite.core.json import Json, JsonMap
from heatlite.template.environment import Environment, merged_registry, names_template
from heatlite.template.source.loader import load, load_template
from heatlite.template.types import Installation

DEFAULT_REGISTRY: Final[JsonMap] = {"OS::Quantum*": "OS::Neutron*"}
"""The old names of types that Heat's default environment maps; a file of the folder may change or remove them."""

_SECTIONS = ("resource_registry", "event_sinks")


class BadEnvironmentFile(Invalid):
    """An environment file of the installation, or its template, is unusable."""

    text = "{file}: {reason}"


def read_installation(folder: Path, old_names: Mapping[str, str] | None = None) -> Installation:
    """Read every file of the folder by name, later ones on top of earlier ones.

    All lie above `DEFAULT_REGISTRY` and `old_names` of types. A missing folder counts as empty. The form is that of any
    environment, of which only resource_registry and event_sinks count. The registry may name templates by path (from
    the folder) and by ``file:`` address. Raises BadEnvironmentFile.
    """
    registries: list[JsonMap] = []
    sinks: list[Json] = []
    files: dict[str, str] = {}
    for path in _files(folder):
        if path.name.startswith(".") or not path.is_file():
            continue
        try:
            source = load(_read(path), str(path), "Environment")
            environment = Environment.parse(source)
        except HeatliteError as error:
            raise BadEnvironmentFile(file=path, reason=error.message) from error
        for section in source.data:
            if section not in _SECTIONS:
                raise BadEnvironmentFile(file=path, reason=f'the section "{section}" means nothing for an installation')
        registries.append(environment.resource_registry)
        sinks += environment.event_sinks
        for name in _templates(environment.resource_registry):
            files[name] = _template(name, path)
    return Installation(merged_registry({**DEFAULT_REGISTRY, **(old_names or {})}, *registries), tuple(sinks), files)


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise BadEnvironmentFile(file=folder, reason=error.strerror) from error


def _templates(registry: Json) -> list[str]:
    """The templates that a registry names, by path or ``file:`` address."""
    if isinstance(registry, dict):
        return [name for value in registry.values() for name in _templates(value)]
    if isinstance(registry, str) and names_template(registry):
        return [registry] if urlsplit(registry).scheme in ("", "file") else []
    return []


def _template(name: str, named_in: Path) -> str:
    path = named_in.parent / unquote(urlsplit(name).path)
    text = _read(path)
    try:
        load_template(text, str(path))
    except HeatliteError as error:
        raise BadEnvironmentFile(file=path, reason=error.message) from error
    return text


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise BadEnvironmentFile(file=path, reason=error.strerror) from error
    except UnicodeDecodeError:
        raise BadEnvironmentFile(file=path, reason="no UTF-8 text") from None
