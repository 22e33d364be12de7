"""Keys, signed URLs and tokens of resources; HTTP: tests/api/test_signals.py."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from heatlite.core.errors import NotSupported
from heatlite.plugin import Schema, Signalled
from heatlite.plugin.signing import NATIVE, Proof, address_of

Build = Callable[..., Any]


class Door(Signalled[Schema], type="Test::Door"):
    """Takes signals."""


def test_a_key_is_drawn_once(build: Build) -> None:
    door = build(Door)
    door.draw_key()
    token = door.token
    door.draw_key()
    assert door.token == token
    other = build(Door)
    other.draw_key()
    assert other.token != token


@pytest.mark.parametrize(
    "key",
    [None, "x", {}, {"secret": "s"}, {"secret": "", "since": "2026-01-01"}, {"secret": 1, "since": "2026-01-01"}],
)
def test_without_a_key_nothing_is_signed_or_let_in(build: Build, key: object) -> None:
    """An adopted record has data that any author may have written."""
    door = build(Door, data={} if key is None else {"signal_key": key})
    with pytest.raises(NotSupported, match="Resource a has no key"):
        door.signed_url(NATIVE)
    assert not door.admits(NATIVE, Proof([], "x"), 1e9)


@pytest.mark.parametrize("since", ["", "never", "9999-99-99", "10000-01-01T00:00:00Z"])
def test_a_key_of_no_time_is_none(build: Build, since: str) -> None:
    door = build(Door, data={"signal_key": {"secret": "s", "since": since}})
    assert not door.admits(NATIVE, Proof([], door.token), 1e9)


def test_a_prefix_of_the_server_is_not_signed(build: Build) -> None:
    """A proxy takes it off before we see the path."""
    door = build(Door)
    door.draw_key()
    door.facts.services = replace(door.facts.services, public_url="https://cloud.example/heat/")
    for form in (NATIVE, "signal"):
        url = door.signed_url(form)
        assert url.startswith("https://cloud.example/heat/v1/")
        assert door.admits(form, Proof(parse_qsl(url.partition("?")[2])), 1e9)


def test_the_address_behind_a_reference(build: Build) -> None:
    door = build(Door)
    door.draw_key()
    for form in (NATIVE, "signal", "waitcondition"):
        assert address_of(door.signed_url(form)) == door.physical_name


@given(st.text() | st.text("?&=[]%/:a"))
def test_any_other_reference_is_its_own_address(text: str) -> None:
    assert address_of(text) == text
