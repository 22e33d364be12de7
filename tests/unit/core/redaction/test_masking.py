"""Secrets are masked in every written form, and nothing else is."""

import base64
import json
import logging
import time
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.json import Json, dump
from heatlite.core.redaction.masking import MASK, NOTHING, Mask, hiding, masked
from heatlite.core.runtime import logs
from tests.tables import table

SECRET = 'pa ss"wört\n'
TEXTS = st.text(st.characters(blacklist_categories=("Cs",)), min_size=6)


def of(*values: object) -> Mask:
    return Mask(lambda: values)


@table(
    "written",
    [
        SECRET, json.dumps(SECRET)[1:-1], json.dumps(SECRET, ensure_ascii=False)[1:-1], repr(SECRET)[1:-1],
        quote(SECRET), quote_plus(SECRET), base64.b64encode(SECRET.encode()).decode(),
    ],
)  # fmt: skip
def test_a_value_is_found_as_it_may_be_written(written: str) -> None:
    assert of(SECRET).text(f"login {written}, or not") == f"login {MASK}, or not"


@given(TEXTS, TEXTS, TEXTS)
def test_nothing_of_it_is_left(before: str, secret: str, after: str) -> None:
    if secret.strip() and secret not in MASK and secret.strip() not in MASK:
        assert secret not in of(secret).text(f"{before}{secret}{after}").replace(MASK, "\0")


def test_what_is_within_a_value_counts_and_the_longest_goes_first() -> None:
    mask = of({"a": ["secret-one", {"b": "secret-one-and-two"}]}, 900210, None, True, "", "  ")
    assert mask.text("secret-one-and-two, secret-one, 900210, None, True") == f"{MASK}, {MASK}, {MASK}, None, True"


def test_of_too_many_values_none_is_looked_for() -> None:
    many = [f"secret-{number}" for number in range(1001)]
    assert of(many).text("anything") == MASK
    assert of(many).json({"a": ["b", 1, None]}) == {MASK: [MASK, MASK, None]}
    assert of(many[:1000]).text("anything, secret-7") == f"anything, {MASK}"


def test_a_value_that_occurs_often_counts_once() -> None:
    """Many nested stacks may get the same value, before one that gets another."""
    assert of(*["secret-one"] * 2000, "secret-two").text("secret-one, secret-two") == f"{MASK}, {MASK}"


def test_what_is_short_is_a_word_of_its_own() -> None:
    assert of("abc", 777).text("abc abcd 777 1777 x=777 (abc)") == f"{MASK} abcd {MASK} 1777 x={MASK} ({MASK})"
    assert of("a", 7, "to").text("a 7 to") == "a 7 to"


def test_json_keeps_its_shape() -> None:
    value = {"a": ["x", "secret-one", 900210, 5, 1.5, None, True], "secret-one": "b"}
    assert of("secret-one", 900210).json(value) == {"a": ["x", MASK, MASK, 5, 1.5, None, True], MASK: "b"}
    assert NOTHING.json(value) == value


def coded(text: str, wrapped: bool = False, url_safe: bool = False) -> str:
    code = base64.urlsafe_b64encode if url_safe else base64.b64encode
    found = base64.encodebytes(text.encode()) if wrapped else code(text.encode())
    return found.decode()


@table(
    "text",
    [
        coded(f"#!/bin/sh\nPW={SECRET}x\n"), coded(f"PW=ÿ?{SECRET}>>", url_safe=True), coded(SECRET * 99, wrapped=True),
        coded(f"PW={SECRET}").rstrip("="), coded(coded(f"twice {SECRET}")),
    ],
)  # fmt: skip
def test_a_text_that_decodes_to_one_with_a_secret_is_masked(text: str) -> None:
    assert of(SECRET).text(text) == MASK
    assert of(SECRET).json({"a": [text, "b"]}) == {"a": [MASK, "b"]}
    assert of("another").text(text) == text


def test_a_map_that_is_hidden_is_so_with_its_keys() -> None:
    hidden = {"user-of-it": "mia", "rest": [{"inner": "secret-one"}], "on": {"enabled": True}}
    mask = of(hidden)
    assert mask.json({"v": hidden, "n": 1}) == {"v": {MASK: MASK}, "n": 1}
    assert mask.json(hidden) == {MASK: MASK}
    assert mask.json([{"inner": "secret-one"}, {"inner": "other"}]) == [{MASK: MASK}, {"inner": "other"}]
    assert mask.json({"enabled": True}) == {"enabled": True}
    for text in (json.dumps(hidden), dump(hidden), repr(hidden)):
        assert mask.text(f"config {text}") == f"config {MASK}"


LEAVES = st.none() | st.booleans() | st.integers() | st.text(st.sampled_from("\0asecret-one 90021"), max_size=12)


@pytest.mark.slow
@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9), inner), max_leaves=9))
def test_each_text_of_json_is_masked_by_itself(value: Json) -> None:
    def each(one: Json) -> Json:
        if isinstance(one, dict):
            return {mask.text(key): each(item) for key, item in one.items()}
        if isinstance(one, list):
            return [each(item) for item in one]
        if one is None or isinstance(one, bool):
            return one
        shown = mask.text(str(one))
        return shown if isinstance(one, str) or shown == MASK else one

    mask = of("secret", "one", 90021, "a\0secret")
    assert mask.json(value) == each(value)


@pytest.mark.slow
@table("secret", ["s{:05}&", "{:x}&"])
def test_many_texts_take_no_longer_than_a_long_one(secret: str) -> None:
    """A reader could otherwise occupy the server with small requests."""
    mask = of(*(secret.format(number) for number in range(256, 1256)))
    texts = [f"-{number} 0" for number in range(3000)]
    began = time.process_time()
    mask.text(" ".join(texts * 4))
    middle = time.process_time()
    mask.json([*texts])
    assert time.process_time() - middle < middle - began + 0.05


def test_values_are_asked_for_once_and_only_if_need_be() -> None:
    asked: list[int] = []

    def values() -> Iterator[str]:
        asked.append(1)
        yield "secret-one"

    mask = Mask(values)
    assert asked == []
    assert mask.text("secret-one") == mask.text("secret-one") == MASK
    assert asked == [1]


def test_who_hides_something_says_nothing_of_it() -> None:
    assert masked("secret-one") == "secret-one"
    with hiding(of("secret-one")):
        assert masked("secret-one") == MASK
        with hiding(None):
            assert masked("secret-one") == "secret-one"
        assert masked("secret-one") == MASK
    assert masked("secret-one") == "secret-one"


@pytest.mark.parametrize("formatter", [logs.TextFormatter, logs.JSONFormatter])
def test_a_line_of_the_log_and_its_traceback_are_masked(formatter: type[logging.Formatter]) -> None:
    lines: list[str] = []
    handler = logging.Handler()
    handler.addFilter(logs.CarryIds())
    handler.setFormatter(formatter())
    handler.emit = lambda record: lines.append(handler.format(record))  # type: ignore[method-assign]
    log = logging.getLogger("of.a.plugin")
    log.addHandler(handler)
    try:
        with hiding(of("secret-one")):
            try:
                raise ValueError("no secret-one here")
            except ValueError:
                log.exception("with %s in %d words", "secret-one", 4)
    finally:
        log.removeHandler(handler)
    assert "secret-one" not in lines[0]
    assert f"with {MASK} in 4 words" in lines[0]
    assert f"ValueError: no {MASK} here" in lines[0]
    # The line of code is shown: it must contain no secret.
    assert "Traceback (most recent call last)" in lines[0]
