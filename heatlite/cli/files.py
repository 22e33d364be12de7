"""Collects the local files of a template into the body of a request.

The server never reads local files. Files named by a template or environment are sent in `files` under their absolute
``file://`` address. The address replaces the path, as in Heat's clients. Templates are sent as JSON, `get_file`
contents as they are (base64 unless UTF-8). Other addresses (``https://…``) stay for the server.
"""

import base64
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from heatlite.cli.errors import CommandError, Misuse, describe
from heatlite.core.errors import HTTPBadRequest, Invalid, Problem
from heatlite.core.json import Json, JsonMap, dump
from heatlite.template.source.loader import Path as Place
from heatlite.template.source.loader import SourceText, load

MAX_FILE_SIZE = 4 * 1024 * 1024
"""Bytes. The server rejects larger bodies anyway."""

_TEMPLATE_NAMES = (".yaml", ".template")
"""Suffixes of type names that are template files (Heat's rule)."""

_NO_FILES = frozenset({"hooks", "restricted_actions", "replacement", "lifecycle_hook", "protect", "ignore_drift"})
"""Keys of a resource_registry whose values are not types."""


class Bundle(Struct, frozen=True):
    """A template with all of its files, ready to be sent."""

    template: SourceText
    """The template with addresses for paths. Its places are those in the file."""
    files: dict[str, str]
    environments: list[SourceText]
    environment: JsonMap
    """All environments merged."""
    environment_files: list[str] = []
    """Names in `files` of environments that the server has to merge."""
    children: dict[str, SourceText] = {}
    """Templates that implement types, by their names in `files`."""
    outside: dict[Path, Path] = {}
    """Files outside of the permitted folders → the document that names each."""

    def body(self, parameters: Mapping[str, str]) -> JsonMap:
        """Return the fields of a request that all routes with a template share."""
        body: JsonMap = {"template": self.template.data, "files": dict(self.files), "parameters": dict(parameters)}
        if self.environment_files:
            body["environment_files"] = list(self.environment_files)
        else:
            body["environment"] = self.environment
        return body


def parameters(given: list[str]) -> dict[str, str]:
    """Convert ``["a=1"]`` to ``{"a": "1"}``. Raises CommandError."""
    out = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise Misuse(f"-P {item}: a parameter is given as NAME=VALUE.")
        out[name] = value
    return out


def read(path: Path, wanted_by: Path | None = None) -> bytes:
    """Read a file. Raises CommandError, which names the document that refers to it.

    A document may name regular files only: a pipe or a device may never end. A user may name a pipe.
    """
    suffix = f" (named in {wanted_by})" if wanted_by else ""
    try:
        with open(path, "rb", opener=_open_now if wanted_by else None) as stream:
            if wanted_by and not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise Misuse(f"{path}: not a regular file{suffix}")
            content: bytes = stream.read(MAX_FILE_SIZE + 1)
    except FileNotFoundError:
        raise Misuse(f"{path}: no such file{suffix}{_similar(path)}") from None
    except OSError as error:
        raise Misuse(f"{path}: {error.strerror}{suffix}") from None
    if len(content) > MAX_FILE_SIZE:
        raise Misuse(f"{path}: larger than {MAX_FILE_SIZE // 1024 // 1024} MiB{suffix}")
    return content


def _similar(path: Path) -> str:
    """Return a hint to a file with a similar name in the same folder, or ""."""
    from difflib import get_close_matches

    try:
        known = {one.stem: one for one in path.parent.iterdir()}
    except OSError:
        return ""
    close = get_close_matches(path.stem, known, 1)
    return f"; did you mean {known[close[0]]}?" if close else ""


def _open_now(path: str, flags: int) -> int:
    """Open a file without waiting for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def load_file(path: Path, kind: str = "Template", wanted_by: Path | None = None) -> SourceText:
    """Load a YAML or JSON file.

    Raises CommandError if it cannot be read, HTTPBadRequest if it is neither.
    """
    try:
        text = read(path, wanted_by).decode()
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 text (byte {error.start})"
        raise HTTPBadRequest(reason, (Problem((), reason, error="HTTPBadRequest", source=str(path)),)) from None
    return load(text, str(path), kind)


class _Gatherer:
    """Walks documents and collects the files that they name.

    Adds problems to `faults`; without such a list, raises the first one.
    """

    def __init__(self, faults: list[Problem] | None, folders: Sequence[Path]) -> None:
        """`folders` are permitted besides the folder of the document on the command line."""
        self.files: dict[str, str] = {}
        self.children: dict[str, SourceText] = {}
        self.outside: dict[Path, Path] = {}
        self._folders = [folder.resolve() for folder in folders]
        self._root = Path()
        self._documents: dict[Path, SourceText] = {}
        self._faults = faults

    def document(self, path: Path, kind: str = "Template", wanted_by: Path | None = None) -> SourceText:
        """Load a document from the command line or one that another names.

        Raises as `load_file`.
        """
        if wanted_by is None:
            self._root = path.parent.resolve()
        self._documents[path] = source = load_file(path, kind, wanted_by)
        return source

    def _locate(self, name: str, base: Path) -> Path | None:
        """Return the file for a name relative to `base`, or None for a remote address."""
        try:
            parts = urlsplit(name)
        except ValueError:
            return None  # the server refuses it
        if parts.scheme == "file":
            return Path(unquote(parts.path))
        return None if "://" in name else base / name

    def _address(self, path: Path, document: Path) -> str:
        """Return the address of a file that a document names."""
        real = path.resolve()
        if not any(real.is_relative_to(folder) for folder in (self._root, *self._folders)):
            self.outside.setdefault(real, document)
        return real.as_uri()

    def _wrong(self, error: CommandError, document: Path, where: Place) -> None:
        """Record a file that cannot be read, named in `document` at `where`."""
        if self._faults is None:
            raise error
        line, column = self._documents[document].locate(where)
        self._faults.append(
            Problem(where, str(error), error="FileNotRead", source=str(document), line=line, column=column)
        )

    def _content(self, name: str, document: Path, where: Place) -> str:
        path = self._locate(name, document.parent)
        if path is None:
            return name
        address = self._address(path, document)
        if address not in self.files:
            try:
                content = read(path, document)
            except CommandError as error:
                self._wrong(error, document, where)
                content = b""
            try:
                self.files[address] = content.decode()
            except UnicodeDecodeError:
                self.files[address] = base64.b64encode(content).decode()
        return address

    def _child(self, name: str, document: Path, base: Path, where: Place) -> str:
        path = self._locate(name, base)
        if path is None:
            return name
        address = self._address(path, document)
        if address not in self.files:
            self.files[address] = ""  # ends the recursion of a template that names itself; the server rejects it
            try:
                self.children[address] = source = self.document(path, wanted_by=document)
            except CommandError as error:
                self._wrong(error, document, where)
            except Invalid as error:
                if self._faults is None:
                    raise
                self._faults += error.problems
            else:
                source.data = cast(JsonMap, self.template(source.data, path))
                self.files[address] = dump(source.data)
        return address

    def template(self, value: Json, document: Path, where: Place = ()) -> Json:
        """Return the template, or its part at `where`, with addresses for paths."""
        if isinstance(value, Mapping):
            out: JsonMap = {}
            for key, item in value.items():
                here = (*where, key)
                if key == "get_file" and isinstance(item, str):
                    out[key] = self._content(item, document, here)
                elif key in ("type", "Type") and isinstance(item, str) and item.endswith(_TEMPLATE_NAMES):
                    out[key] = self._child(item, document, document.parent, here)
                else:
                    out[key] = self.template(item, document, here)
            return out
        if isinstance(value, list):
            return [self.template(item, document, (*where, i)) for i, item in enumerate(value)]
        return value

    def registry(self, value: Mapping[str, Json], document: Path, base: Path, where: Place) -> JsonMap:
        """Return a resource_registry with addresses for paths.

        `base_url` changes the folder of relative paths.
        """
        moved = value.get("base_url")
        if isinstance(moved, str):
            base = self._locate(moved, base) or base
        out: JsonMap = {}
        for key, item in value.items():
            here = (*where, key)
            if key == "base_url":
                continue
            if key not in _NO_FILES and isinstance(item, Mapping):
                out[key] = self.registry(item, document, base, here)
            elif key not in _NO_FILES and isinstance(item, str) and item and "::" not in item:
                out[key] = self._child(item, document, base, here)
            else:
                out[key] = item
        return out


def _merge_registry(below: Mapping[str, Json], above: Mapping[str, Json]) -> JsonMap:
    out: JsonMap = dict(below)
    for key, value in above.items():
        old = out.get(key)
        out[key] = _merge_registry(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return out


def _merge(below: Mapping[str, Json], above: Mapping[str, Json]) -> JsonMap:
    """Merge two environments by name in each section; in the registry, by type."""
    out: JsonMap = dict(below)
    for section, value in above.items():
        old = out.get(section)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            out[section] = _merge_registry(old, value) if section == "resource_registry" else {**old, **value}
        else:
            out[section] = value
    return out


def gather(template: Path, environments: Sequence[Path] = (), folders: Sequence[Path] = ()) -> Bundle:
    """Read a template, its environments and every file that they name.

    Raises CommandError.
    Files in the folders of the template and the environments, and in `folders`, need no consent; `Bundle.outside` has
    the others.

    Merges the environments, later ones over earlier ones, so that parameters of the command line override them: on
    the server, `environment_files` would win. Only environments with merge strategies are sent as files.
    """
    try:
        return _gather(template, environments, None, folders)
    except Invalid as error:
        raise CommandError("\n".join(map(describe, error.problems)) or error.message) from None


def gather_all(template: Path, environments: Sequence[Path], faults: list[Problem]) -> Bundle:
    """Gather files, add problems to `faults`, and omit broken environments.

    Raises HTTPBadRequest if the template cannot be parsed, CommandError if it or an environment cannot be read.
    """
    return _gather(template, environments, faults)


def _gather(
    template: Path, environments: Sequence[Path], faults: list[Problem] | None, folders: Sequence[Path] = ()
) -> Bundle:
    gatherer = _Gatherer(faults, folders)
    sources = []
    merged: JsonMap = {}
    for path in environments:
        try:
            content = gatherer.document(path, "Environment")
        except Invalid as error:
            if faults is None:
                raise
            faults += error.problems
            continue
        registry = content.data.get("resource_registry")
        if isinstance(registry, Mapping):
            where = ("resource_registry",)
            content.data["resource_registry"] = gatherer.registry(registry, path, path.parent, where)
        sources.append(content)
        merged = _merge(merged, content.data)
    sent: dict[str, str] = {}
    if "parameter_merge_strategies" in merged:
        sent = {Path(one.name).resolve().as_uri(): dump(one.data) for one in sources}
    source = gatherer.document(template)
    source.data = cast(JsonMap, gatherer.template(source.data, template))
    return Bundle(source, {**gatherer.files, **sent}, sources, merged, list(sent), gatherer.children, gatherer.outside)
