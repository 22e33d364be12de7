"""Containers: server-side files of a project, named by `files_container`."""

import os
import stat
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from heatlite.core.errors import HTTPBadRequest, RequestLimitExceeded

MAX_OBJECTS: Final = 1000
"""Maximum number of files and folders in a container."""
MAX_LEVELS: Final = 32
"""Maximum depth of nested folders."""


class Containers(Protocol):
    """Containers of all projects: a folder, or an object store."""

    def files(self, project: str, name: str) -> dict[str, str]:
        """Return the files of a container: texts by name, with ``/`` between folders.

        Raises HTTPBadRequest for a missing container or one with something else than text, and RequestLimitExceeded for
        one that is too large.
        """


class Folders(Struct, frozen=True):
    """Containers in the file system: ``<root>/<project>/<name>``.

    The author of a project's folder may be less trusted than the server. Therefore symbolic links below `root` are not
    followed, and no file is opened by a path that could change its meaning meanwhile.
    """

    root: Path
    most_bytes: int
    """Maximum size of one file."""
    most_bytes_together: int

    def files(self, project: str, name: str) -> dict[str, str]:
        """Return the files as `Containers.files`. The folder is read at every call."""
        walk = _Walk(self, name)
        try:
            folder = self._open(project, name)
            try:
                walk.read(folder, "", 1)
            finally:
                os.close(folder)
        except FileNotFoundError:
            raise HTTPBadRequest(f"There is no container {_shown(name)}.") from None
        except OSError as error:
            raise HTTPBadRequest(f"Container {_shown(name)} cannot be read: {error.strerror}.") from error
        return dict(sorted(walk.files.items()))

    def _open(self, project: str, name: str) -> int:
        folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in (project, name):
            above = folder
            try:
                folder = _open_folder(part, above)
            finally:
                os.close(above)
        return folder


class _Walk:
    """Reads one container once."""

    def __init__(self, limits: Folders, container: str) -> None:
        self.files: dict[str, str] = {}
        self._limits = limits
        self._container = container
        self._entries = 0
        self._bytes = 0

    def read(self, folder: int, prefix: str, level: int) -> None:
        """Read all files in an open folder."""
        if level > MAX_LEVELS:
            raise self._too_large(f"its folders are deeper than {MAX_LEVELS}")
        with os.scandir(folder) as entries:
            for entry in entries:
                self._entries += 1
                if self._entries > MAX_OBJECTS:
                    raise self._too_large(f"it has more than {MAX_OBJECTS} objects")
                self._read_entry(entry.name, folder, prefix + entry.name, level)

    def _read_entry(self, name: str, folder: int, path: str, level: int) -> None:
        try:
            path.encode()
        except UnicodeEncodeError:
            raise self._refused(path, "its name is no UTF-8") from None
        try:
            # Non-blocking: opening a pipe would wait for its other end.
            opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError as error:
            raise self._refused(path, f"it cannot be read: {error.strerror}") from error
        try:
            kind = os.fstat(opened).st_mode
            if stat.S_ISDIR(kind):
                self.read(opened, f"{path}/", level + 1)
            elif stat.S_ISREG(kind):
                self.files[path] = self._text(opened, path)
            else:
                raise self._refused(path, "it is no file")
        finally:
            os.close(opened)

    def _text(self, opened: int, path: str) -> str:
        most = self._limits.most_bytes
        with os.fdopen(opened, "rb", closefd=False) as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise self._too_large(f"{_shown(path)} has more than {most} bytes")
        self._bytes += len(content)
        together = self._limits.most_bytes_together
        if self._bytes > together:
            raise self._too_large(f"its objects have more than {together} bytes")
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise self._refused(path, f"it is no UTF-8 text (byte {error.start})") from None
        if "\0" in text:
            raise self._refused(path, f"it is no text: it holds a NUL character (byte {content.index(0)})")
        return text

    def _refused(self, path: str, reason: str) -> HTTPBadRequest:
        return HTTPBadRequest(f"Container {_shown(self._container)}: {_shown(path)} cannot be used: {reason}.")

    def _too_large(self, reason: str) -> RequestLimitExceeded:
        return RequestLimitExceeded(message=f"Container {_shown(self._container)}: {reason}.")


def _open_folder(name: str, above: int) -> int:
    """Open a folder directly inside an open one.

    Raises OSError, also for a name that leads elsewhere or is no folder.
    """
    if name in ("", ".", "..") or "/" in name or not name.isprintable():
        raise FileNotFoundError(name)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)


def _shown(name: str) -> str:
    return f'"{name[:200]}"' if name.isprintable() else ascii(name[:200])
