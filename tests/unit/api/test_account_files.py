"""Account files: a refused account leaves them as they were."""

import os
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from heatlite.api.access.account_files import add_token, parse_tokens, roles_file, write_account
from heatlite.core.config import BadSetting

ROLES = {"demo": frozenset({"member"})}
HASH = "$2b$04$" + 53 * "a"


def test_a_refused_account_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "users"
    for user, projects in (("a:b", ROLES), ("a\x7f", ROLES), ("a", {"x\udcff": frozenset({"member"})})):
        with pytest.raises(BadSetting):
            write_account(path, user, HASH, projects)
    path.write_text("no hash\n")
    with pytest.raises(BadSetting):
        write_account(path, "mia", HASH, ROLES)
    assert [file.name for file in tmp_path.iterdir()] == ["users"]
    path.unlink()
    write_account(path, "mia", HASH, ROLES)
    write_account(path, "mia", HASH, {"x": frozenset({"reader"})})
    assert path.read_text() == f"mia:{HASH}\n"
    assert '["mia"]\n"demo" = ["member"]\n"x" = ["reader"]\n' in roles_file(path).read_text()


@pytest.mark.parametrize("name", ["a\udcff", "a\x7f"])
def test_a_token_for_a_name_that_toml_cannot_hold_is_refused(name: str, tmp_path: Path) -> None:
    for user, projects in ((name, ROLES), ("mia", {name: frozenset({"member"})})):
        with pytest.raises(BadSetting, match="is not a valid name"):
            add_token(tmp_path / "tokens.toml", user, projects, None)
    assert not [*tmp_path.iterdir()]


def test_a_written_file_keeps_owner_permissions_and_place(tmp_path: Path) -> None:
    """A server of another user may read the files through its group."""
    other = 12345 if os.geteuid() == 0 else os.getgid()
    (tmp_path / "secrets").mkdir()
    tokens, users = tmp_path / "secrets" / "tokens.toml", tmp_path / "users"
    link = tmp_path / "tokens.toml"
    link.symlink_to(tokens)
    before = os.umask(0o077)
    try:
        add_token(link, "mia", ROLES, None)
        write_account(users, "mia", HASH, ROLES)
        assert [path.stat().st_mode & 0o777 for path in (tokens, users, roles_file(users))] == [0o600] * 3
        for path in (tokens, users, roles_file(users)):
            os.chown(path, -1, other)
            path.chmod(0o640)
        add_token(link, "tom", ROLES, None)
        write_account(users, "tom", HASH, ROLES)
    finally:
        os.umask(before)
    assert link.readlink() == tokens
    found = [path.stat() for path in (tokens, users, roles_file(users))]
    assert [(one.st_mode & 0o777, one.st_gid) for one in found] == [(0o640, other)] * 3


def test_a_disk_without_room_leaves_the_files_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    add_token(path, "mia", ROLES, None)
    before = path.read_text()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        with pytest.raises(BadSetting, match="cannot be written: File too large"):
            add_token(path, "tom", ROLES, None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [file.read_text() for file in tmp_path.iterdir()] == [before]


def test_commands_at_the_same_time_lose_no_change(tmp_path: Path) -> None:
    tokens, users = tmp_path / "tokens.toml", tmp_path / "users"
    names = {f"u{number}" for number in range(16)}

    def write(name: str) -> None:
        add_token(tokens, name, ROLES, None)
        write_account(users, name, HASH, ROLES)

    with ThreadPoolExecutor(len(names)) as pool:
        assert [*pool.map(write, names)] == [None] * len(names)
    assert {token.user for token in parse_tokens(tokens.read_text(), tokens).values()} == names
    assert {line.partition(":")[0] for line in users.read_text().splitlines()} == names
    assert all(f'["{name}"]' in roles_file(users).read_text() for name in names)
    assert {path.name for path in tmp_path.iterdir()} == {"tokens.toml", "users", "users.toml"}
