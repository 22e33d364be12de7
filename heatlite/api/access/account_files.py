"""Account files: passwords as of `htpasswd -B`, tokens, and roles in projects.

They hold hashes of passwords and tokens. A change takes effect with the next request.
"""

import hashlib
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Generic, TypeVar

from msgspec import Struct

from heatlite.core.clock import to_text
from heatlite.core.config import BadSetting
from heatlite.core.errors import Unavailable
from heatlite.core.json import dump, pretty
from heatlite.core.runtime.file_locks import locked

log = logging.getLogger(__name__)

T = TypeVar("T")

Projects = Mapping[str, frozenset[str]]
"""Projects → roles in them."""

BCRYPT = re.compile(r"\$2[aby]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
DIGEST = re.compile(r"[0-9a-f]{64}")


class TokenRecord(Struct, frozen=True):
    """A token as stored, without its value."""

    sha256: str
    user: str
    projects: Projects
    expires: datetime | None = None


class WatchedFile(Generic[T]):
    """The parsed content of a file, read again after a change."""

    def __init__(self, path: Path, what: str, parse: Callable[[str, Path], T]) -> None:
        """`what` names the file in errors.

        Raises BadSetting if it cannot be read or parsed.
        """
        self._path = path
        self._what = what
        self._parse = parse
        self._read_stamp: tuple[int, int, int] | None = None
        self._read()

    def get(self) -> T:
        """Return the current content.

        Raises Unavailable if it cannot be read: revoked accounts must stay out.
        """
        try:
            if self._stamp() != self._read_stamp:
                self._read()
        except (BadSetting, OSError) as error:
            self._read_stamp = None
            log.error("%s", error)
            raise Unavailable(service=self._what, reason="it cannot be read; the log says why") from error
        return self._content

    def _read(self) -> None:
        try:
            stamp = self._stamp()  # before reading, so that a write meanwhile is noticed next time
            self._content = self._parse(self._path.read_text("utf-8"), self._path)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise BadSetting(f"{self._what} ({self._path}) cannot be read: {reason}.") from error
        self._read_stamp = stamp

    def _stamp(self) -> tuple[int, int, int]:
        found = self._path.stat()
        return found.st_mtime_ns, found.st_ino, found.st_size


# -- parsing -------------------------------------------------------------------------------------------


def parse_passwords(text: str, path: Path) -> dict[str, str]:
    """Return users → bcrypt hashes. Raises BadSetting."""
    out: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, hashed = line.strip().partition(":")
        if not (user and colon and BCRYPT.fullmatch(hashed)):
            raise BadSetting(f"{path}: line {number} is not USER:HASH with a bcrypt hash ($2y$…), as of `htpasswd -B`.")
        if user in out:
            raise BadSetting(f"{path}: line {number}: {user} occurs twice.")
        out[user] = hashed
    return out


def parse_roles(text: str, path: Path) -> dict[str, Projects]:
    """Return users → projects → roles. Raises BadSetting."""
    return {user: _projects(table, f"{path}: [{user}]") for user, table in _toml(text, path).items()}


def parse_tokens(text: str, path: Path) -> dict[str, TokenRecord]:
    """Return SHA-256 digests → tokens. Raises BadSetting."""
    entries = _toml(text, path).get("tokens", [])
    if not isinstance(entries, list):
        raise BadSetting(f"{path}: [[tokens]] needs two pairs of brackets.")
    tokens = [_token(entry, f"{path}: token {number}") for number, entry in enumerate(entries, 1)]
    return {token.sha256: token for token in tokens}


def _token(entry: object, place: str) -> TokenRecord:
    match entry:
        case {"sha256": str(sha256), "user": str(user), "projects": projects, **rest} if DIGEST.fullmatch(sha256):
            expires = rest.pop("expires", None)
            if rest:
                raise BadSetting(f"{place}: unknown key {', '.join(map(str, rest))}.")
            if expires is not None and (not isinstance(expires, datetime) or expires.tzinfo is None):
                raise BadSetting(f"{place}: `expires` must be a time with a zone: 2027-01-31T12:00:00Z.")
            return TokenRecord(sha256, user, _projects(projects, place), expires)
    raise BadSetting(f"{place} needs `sha256` (64 digits), `user` and `projects`.")


def _projects(table: object, place: str) -> Projects:
    out = {}
    for project, roles in table.items() if isinstance(table, dict) else [("", None)]:
        if not isinstance(roles, list) or not all(isinstance(role, str) for role in roles):
            raise BadSetting(f'{place}: projects are given as PROJECT = ["member"], with a list of roles each.')
        out[project] = frozenset(roles)
    return out


def _toml(text: str, path: Path) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadSetting(f"{path}: not valid TOML: {error}.") from None


# -- writing -------------------------------------------------------------------------------------------


def roles_file(users_file: Path) -> Path:
    """Return the file with the roles of users: ``users.toml`` beside ``users``."""
    return users_file.with_name(users_file.name + ".toml")


def write_account(path: Path, user: str, hashed: str, projects: Projects) -> None:
    """Set the password of a user, and the roles in these projects; others stay.

    Raises BadSetting before it writes anything.
    """
    if not user or ":" in user or not user.isprintable() or user != user.strip() or user.startswith("#"):
        raise BadSetting(f"{user!r} is not a valid user name: it must not contain a colon or begin with #.")
    with _locked(path):
        passwords = {**_known(path, parse_passwords), user: hashed}
        roles = _known(roles_file(path), parse_roles)
        roles[user] = {**roles.get(user, {}), **projects}
        tables = "\n".join(f"[{_quoted(name)}]\n{_lines(own)}" for name, own in roles.items())
        # roles before the password, so that a user who can log in has roles
        _replace(roles_file(path), f"# Users, and their roles in each project.\n{tables}")
        _replace(path, "".join(f"{name}:{one}\n" for name, one in passwords.items()))


def add_token(path: Path, user: str, projects: Projects, expires: float | None) -> str:
    """Create a token, store its digest, and return it. Raises BadSetting."""
    token = secrets.token_urlsafe(32)
    moment = None if expires is None else datetime.fromisoformat(str(to_text(expires)))
    new = TokenRecord(digest(token), user, projects, moment)
    with _locked(path):
        entries = (
            f'[[tokens]]\nsha256 = "{one.sha256}"\nuser = {_quoted(one.user)}\n'
            + ("" if one.expires is None else f"expires = {one.expires.isoformat()}\n")
            + f"[tokens.projects]\n{_lines(one.projects)}"
            for one in (*_known(path, parse_tokens).values(), new)
        )
        _replace(path, "\n".join(entries))
    return token


def digest(token: str) -> str:
    """Return the stored digest of a token.

    One round of SHA-256 suffices: tokens are long and random.
    """
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()


def _known(path: Path, parse: Callable[[str, Path], dict[str, T]]) -> dict[str, T]:
    return parse(path.read_text("utf-8"), path) if path.exists() else {}


def _lines(projects: Projects) -> str:
    return "".join(f"{_quoted(name)} = {pretty(sorted(roles), 0)}\n" for name, roles in projects.items())


def _quoted(text: str) -> str:
    """Quote text as a TOML string, for which JSON's form is valid. Raises BadSetting."""
    if not text.isprintable():
        raise BadSetting(f"{text!r} is not a valid name: it has characters that cannot be printed.")
    return dump(text)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock the folder of a file, which is made if it is missing. Raises BadSetting."""
    folder = path.resolve().parent
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(folder))
        except OSError as error:
            raise BadSetting(f"{path}: cannot be written: {error.strerror}.") from error
        yield


def _replace(path: Path, text: str) -> None:
    """Replace a file atomically; owner and permissions stay.

    Only its owner may read a new one.
    """
    try:
        path = path.resolve()
        with NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:  # 0600
            new = Path(file.name)
            try:
                if path.exists():  # the server may read it through its group
                    found = path.stat()
                    os.fchown(file.fileno(), found.st_uid, found.st_gid)
                    os.fchmod(file.fileno(), found.st_mode & 0o777)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                new.replace(path)
            finally:
                new.unlink(missing_ok=True)
    except OSError as error:
        raise BadSetting(f"{path}: cannot be written: {error.strerror}.") from error
