"""Secrets at rest: what is written, who can read it, and where the keys are from."""

import base64
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.config import BadSetting, Settings, load
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.json import JsonMap
from heatlite.store.errors import UnreadableSecret
from heatlite.store.secrets.cipher import Cipher, new_key, open_cipher
from tests.tables import table

OLD, NEW, OTHER = (base64.urlsafe_b64encode(bytes([n]) * 32).decode() for n in range(3))

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters()), lambda more: st.lists(more), max_leaves=5
)


@pytest.mark.slow
@given(st.dictionaries(st.text(st.characters()), VALUES))
def test_whatever_is_encrypted_comes_back(secret: JsonMap) -> None:
    cipher = Cipher([OLD], "here")
    assert cipher.decrypt(cipher.encrypt(secret)) == secret


def test_the_text_tells_its_form_and_nothing_else() -> None:
    text = Cipher([OLD], "here").encrypt({"password": "sesame"})
    form, _, token = text.partition(":")
    assert form == "fernet1"
    assert json.loads(Fernet(OLD).decrypt(token)) == {"password": "sesame"}  # any other program can open it, too
    assert "sesame" not in text
    assert b"sesame" not in base64.urlsafe_b64decode(token)


def test_the_first_key_encrypts_and_all_of_them_open() -> None:
    text = Cipher([OLD], "here").encrypt({"a": 1})
    both = Cipher([NEW, OLD], "here")
    assert both.decrypt(text) == {"a": 1}
    assert Cipher([NEW], "here").decrypt(both.encrypt({"b": 2})) == {"b": 2}
    rotated = both.rotate(text)
    assert Cipher([NEW], "here").decrypt(rotated) == {"a": 1}
    with pytest.raises(UnreadableSecret):
        Cipher([OLD], "here").decrypt(rotated)


def damaged(text: str) -> str:
    """The same with another letter in the middle of the token."""
    return text[:60] + ("A" if text[60] != "A" else "B") + text[61:]


@table(
    "text",
    [
        Cipher([OTHER], "there").encrypt({}),
        damaged(Cipher([OLD], "here").encrypt({"a": "b" * 50})),
        "fernet2:x",
        "fernet1:ä",
        "fernet1:",
        '["fernet1:x"]',
        "sesame",
        "",
    ],
)
def test_what_no_key_opens_is_refused_with_the_place_of_the_keys(text: str) -> None:
    cipher = Cipher([NEW, OLD], "encryption_keys")
    for use in (cipher.decrypt, cipher.rotate):
        with pytest.raises(UnreadableSecret, match="encryption_keys lacks the key") as error:
            use(text)
        assert not any(key in str(error.value) for key in (OLD, NEW))
        assert error.value.__suppress_context__ or error.value.__context__ is None


def test_a_new_key_is_one_and_never_the_same() -> None:
    keys = {new_key() for _ in range(50)}
    assert len(keys) == 50
    assert Cipher([*keys], "here").decrypt(Cipher([*keys], "here").encrypt({"a": 1})) == {"a": 1}


# -- where the keys are from -----------------------------------------------------------------------


@table(
    "key", ["", "sesame", OLD[:-1], OLD + "=", OLD.replace("A", "+"), "ä" * 44, base64.b64encode(b"x" * 31).decode()]
)
def test_what_is_no_key_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(BadSetting, match=r"encryption_keys: key 2 of 2 is not 32 bytes") as error:
        open_cipher([OLD, key], None)
    assert not key or key not in str(error.value)
    assert OLD not in str(error.value)


def test_keys_come_from_file_and_environment_and_are_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "heatlite.toml"
    file.write_text(f'encryption_keys = ["{OLD}"]\n')
    found = load(list, file=file, environ={})
    assert found.encryption_keys == (OLD,)
    assert load(list, file=file, environ={"HEATLITE_ENCRYPTION_KEYS": f"{NEW}, {OLD}"}).encryption_keys == (NEW, OLD)
    assert OLD not in repr(found)
    file.write_text(f'encryption_keys = "{OLD}"\n')
    with pytest.raises(BadSetting, match=r"encryption_keys must be a list of texts\.") as error:
        load(list, file=file, environ={})
    assert OLD not in str(error.value)


def test_a_setting_goes_before_the_file_of_the_database(tmp_path: Path) -> None:
    cipher = open_cipher([OLD], tmp_path / "heat.db")
    assert cipher is not None
    assert Cipher([OLD], "here").decrypt(cipher.encrypt({"a": 1})) == {"a": 1}
    assert [*tmp_path.iterdir()] == []


def test_on_a_server_without_keys_there_is_no_cipher() -> None:
    assert open_cipher((), None) is None


def test_a_database_file_gets_a_key_beside_it_for_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        cipher = open_cipher((), tmp_path / "heat.db")
    finally:
        os.umask(before)
    assert cipher is not None
    (file,) = tmp_path.iterdir()
    assert file.name == "heatlite.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = cipher.encrypt({"a": 1})
    again = open_cipher((), tmp_path / "heat.db")
    assert again is not None
    assert again.decrypt(text) == {"a": 1}


def test_a_key_file_that_somebody_died_over_is_finished(tmp_path: Path) -> None:
    (tmp_path / "heatlite.key").touch(0o600)
    cipher = open_cipher((), tmp_path / "heat.db")
    assert cipher is not None
    assert open_cipher((), tmp_path / "heat.db").decrypt(cipher.encrypt({"a": 1})) == {"a": 1}  # type: ignore[union-attr]


def test_a_key_file_of_something_else_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "heatlite.key").write_text("sesame\n")
    with pytest.raises(BadSetting, match=r"heatlite\.key: key 1 of 1 is not 32 bytes") as error:
        open_cipher((), tmp_path / "heat.db")
    assert "sesame" not in str(error.value)


def test_a_key_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "heatlite.key").mkdir()
    with pytest.raises(DatabaseUnavailable, match=r"the key file .*heatlite\.key: Is a directory"):
        open_cipher((), tmp_path / "heat.db")


@pytest.mark.slow
def test_processes_that_start_at_once_agree_on_the_key(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from heatlite.store.secrets.cipher import Cipher, open_cipher
import cryptography.fernet
print(flush=True)
sys.stdin.readline()
print(open_cipher((), Path(sys.argv[1])).encrypt({"a": 1}))
"""
    several = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "heat.db")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(4)
    ]  # fmt: skip
    for process in several:
        assert process.stdout is not None
        process.stdout.readline()
    for process in several:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    cipher = open_cipher((), tmp_path / "heat.db")
    assert cipher is not None
    for process in several:
        text, _ = process.communicate(timeout=240)
        assert process.returncode == 0
        assert cipher.decrypt(text) == {"a": 1}


@pytest.mark.slow
def test_without_the_library_keys_are_refused_and_nothing_is_made(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
sys.modules["cryptography"] = None
from heatlite.core.runtime.extras import MissingLibrary
from heatlite.store.secrets.cipher import open_cipher
assert open_cipher((), Path(sys.argv[1])) is None
assert open_cipher((), None) is None
try:
    open_cipher([sys.argv[2]], Path(sys.argv[1]))
except MissingLibrary as error:
    print(error)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "heat.db"), OLD]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout
    assert said.startswith("encryption_keys needs cryptography, which is not installed: ")
    assert [*tmp_path.iterdir()] == []


def test_settings_are_not_shown_with_what_is_secret_in_them() -> None:
    shown = repr(Settings(database="", encryption_keys=(OLD,), region_tokens=("two=sesame",)))
    assert OLD not in shown
    assert "sesame" not in shown
