"""From files on this machine to the body of a request.

The server never reads our files. So what a template or an environment names by a path travels along in `files`, under
its absolute ``file://`` address, and the name becomes that address, as the real clients do: templates as JSON,
`get_file` contents as they are (base64 if they are no UTF-8). Other addresses (``https://…``) stay; the server decides.

A template of another author could name any file of its user. So files outside of the folder of the template or
environment on the command line are told apart (`Bundle.outside`), and sent with consent only.
"""

import base64
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from urllib.parse import unquote, urlsplit

from heatlite.cli.errors import CommandError, describe
from heatlite.core.errors import HTTPBadRequest, Invalid, Problem
from heatlite.core.json import Json, JsonMap, dump
from heatlite.template.loader import Path as Place
from heatlite.template.loader import Source, load

MAX_FILE_SIZE = 4 * 1024 * 1024
"""Bytes; a body larger than this is refused by the server anyway."""

_TEMPLATE_NAMES = (".yaml", ".template")
"""How the name of a type ends that is a template (Heat's rule)."""

_NO_FILES = frozenset({"hooks", "restricted_actions", "replacement", "lifecycle_hook"})
"""Keys of a resource_registry whose values are not types."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A template with all that it needs, ready to be sent."""

    template: Source
    """With paths replaced by addresses; its places are those in the file."""
    files: dict[str, str]
    environments: list[Source]
    environment: JsonMap
    """All of them merged."""
    environment_files: list[str] = field(default_factory=list)
    """Their names in `files`, where the server has to merge them."""
    children: dict[str, Source] = field(default_factory=dict)
    """By their names in `files`: the templates that stand for types, with their places."""
    outside: dict[Path, Path] = field(default_factory=dict)
    """Files outside of the folders that files may be sent from → the document that names each."""

    def body(self, parameters: Mapping[str, str]) -> JsonMap:
        """The part of a request that all routes with a template have in common."""
        body: JsonMap = {"template": self.template.data, "files": dict(self.files), "parameters": dict(parameters)}
        if self.environment_files:
            body["environment_files"] = list(self.environment_files)
        else:
            body["environment"] = self.environment
        return body


def parameters(given: list[str]) -> dict[str, str]:
    """``["a=1"]`` → ``{"a": "1"}``."""
    out = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise CommandError(f"-P {item}: a parameter is given as NAME=VALUE.")
        out[name] = value
    return out


def read(path: Path, wanted_by: Path | None = None) -> bytes:
    """A file's content. Raises CommandError naming the file that asks for it.

    What a document names has to be a regular file: a pipe or a device may never end. A user may name a pipe.
    """
    suffix = f" (named in {wanted_by})" if wanted_by else ""
    try:
        with open(path, "rb", opener=_open_now if wanted_by else None) as stream:
            if wanted_by and not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise CommandError(f"{path}: no regular file{suffix}")
            content: bytes = stream.read(MAX_FILE_SIZE + 1)
    except FileNotFoundError:
        raise CommandError(f"{path}: no such file{suffix}") from None
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}{suffix}") from None
    if len(content) > MAX_FILE_SIZE:
        raise CommandError(f"{path}: larger than {MAX_FILE_SIZE // 1024 // 1024} MiB{suffix}")
    return content


def _open_now(path: str, flags: int) -> int:
    """Open a file without waiting for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def load_file(path: Path, kind: str = "Template", wanted_by: Path | None = None) -> Source:
    """A YAML or JSON file. Raises CommandError where it cannot be read, HTTPBadRequest where it is none of them."""
    try:
        text = read(path, wanted_by).decode()
    except UnicodeDecodeError as error:
        reason = f"no UTF-8 text (byte {error.start})"
        raise HTTPBadRequest(reason, (Problem((), reason, error="HTTPBadRequest", source=str(path)),)) from None
    return load(text, str(path), kind)


class _Gatherer:
    """Walks documents and collects the files that they name.

    What is wrong with them goes to `faults`; where there is no such list, the first of it is raised.
    """

    def __init__(self, faults: list[Problem] | None, folders: Sequence[Path]) -> None:
        """`folders`: what files may be sent from beside the folder of the document on the command line."""
        self.files: dict[str, str] = {}
        self.children: dict[str, Source] = {}
        self.outside: dict[Path, Path] = {}
        self._folders = [folder.resolve() for folder in folders]
        self._root = Path()
        self._documents: dict[Path, Source] = {}
        self._faults = faults

    def document(self, path: Path, kind: str = "Template", wanted_by: Path | None = None) -> Source:
        """A document whose files are to be collected. Raises as `load_file` does."""
        if wanted_by is None:
            self._root = path.parent.resolve()
        self._documents[path] = source = load_file(path, kind, wanted_by)
        return source

    def _locate(self, name: str, base: Path) -> Path | None:
        """The file that a name in a document of the folder `base` stands for; None for an address elsewhere."""
        parts = urlsplit(name)
        if parts.scheme == "file":
            return Path(unquote(parts.path))
        return None if "://" in name else base / name

    def _address(self, path: Path, document: Path) -> str:
        """The address under which a file is sent that a document names."""
        real = path.resolve()
        if not any(real.is_relative_to(folder) for folder in (self._root, *self._folders)):
            self.outside.setdefault(real, document)
        return real.as_uri()

    def _wrong(self, error: CommandError, document: Path, where: Place) -> None:
        """A file that cannot be read, named in `document` at `where`."""
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
            self.files[address] = ""  # a template that names itself ends here; the server refuses it
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
        """The template (or the part of it at `where`) with addresses for paths."""
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
        """A resource_registry with addresses for paths; `base_url` moves the folder they start from."""
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
    """Two environments in one: by name in each section, down to the single type in the registry."""
    out: JsonMap = dict(below)
    for section, value in above.items():
        old = out.get(section)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            out[section] = _merge_registry(old, value) if section == "resource_registry" else {**old, **value}
        else:
            out[section] = value
    return out


def gather(template: Path, environments: Sequence[Path] = (), folders: Sequence[Path] = ()) -> Bundle:
    """Read a template, its environments and every file that they name. Raises CommandError.

    Files in the folder of the template, of an environment that names them, and in `folders` may be sent without
    asking; `Bundle.outside` has the others.

    Environments are merged here, later ones over earlier ones, so that parameters of the command line win over them;
    the server would let `environment_files` win. Only environments with merge strategies travel as files.
    """
    try:
        return _gather(template, environments, None, folders)
    except Invalid as error:
        raise CommandError("\n".join(map(describe, error.problems)) or error.message) from None


def gather_all(template: Path, environments: Sequence[Path], faults: list[Problem]) -> Bundle:
    """As `gather`, but what is wrong with the files goes to `faults`, and broken environments are left out.

    Raises HTTPBadRequest where the template itself cannot be parsed, and CommandError where it or an environment cannot
    be read.
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
