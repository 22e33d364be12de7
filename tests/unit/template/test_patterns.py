"""Regular expressions of strangers: the language of `re`, within bounds."""

import re
import time
import warnings
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.template.patterns import Pattern, TooMuchWork, read_pattern


def expected(text: str, value: str) -> bool:
    return re.fullmatch(text, value) is not None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", ["", "a"]),
        ("[a-z][a-z0-9]*", ["a", "a1", "1a", ""]),
        (r"(\d{1,3}\.){3}\d{1,3}", ["192.168.1.20", "192.168.1", "1.2.3.4444"]),
        (r"^([a-z0-9]+(-[a-z0-9]+)*\.)+[a-z]{2,}$", ["a-b.c.org", "a--b.org", "org", "a.o", "a-b.c.org\n"]),
        (r"(?=.*[A-Z])(?=.*[0-9])(?!.*\s).{8,}", ["Passw0rd1", "passw0rd1", "Passw0 rd1"]),
        (r"(a|b|ab)*c", ["ababc", "abab", "c"]),
        (r"(a+)+b", ["aaab", "aaa", "b"]),
        (r"(?i)[a-z]+É(x|y)*", ["abcéXy", "ABCÉ", "abce"]),
        (r"(?:(?i:[a-z]b)|c)+", ["aBc", "aBC"]),
        (r"(?s)(.|b)*", ["a\nb"]),
        (r"(.|b)*", ["a\nb", "ab"]),
        (r"(?m)(^a$\n?)+", ["a\na\n", "a\nb"]),
        (r"(\b\w+\b\W*)+", ["ab, cd", ", ab"]),
        (r"(\Ba|b)+\Z", ["ba", "ab"]),
        (r"((?<=a)b|a|(?<!a)c)+", ["ab", "b", "aab", "ac", "abc"]),
        (r"(?a)(\w|\d)+", ["abc", "é"]),
        (r"(\w|\d)+", ["abc", "é"]),
        (r"(?x) ( a | b )* # text", ["ab", " "]),
        (r"(a{2,4}?){2,3}", ["aaaa", "aaa", "a" * 12, "a" * 13]),
        (r"(a{0,3}b?){2}", ["aab", "aaabaaab", "aaaabb"]),
        (r"(|a)+", ["", "aaa"]),
        (r"(?:a|(?!))+", ["aa"]),
        (r"[一-鿿a-z\d]+", ["漢字a1", "漢 字"]),
        (r"([^一-鿿]|a)+", ["abc", "漢"]),
        (r"(?i)[a-f][g-l][m-r][s-z]+(x|y)*", ["AGMSS", "agmx", "agmſ", "1gms"]),
        (r"(?:(a)|b)(?(1)c|d)", ["ac", "bd", "ad"]),
        (r"(.)\1", ["aa", "ab"]),
        (r"(?>a+)b", ["aab", "aa"]),
        (r"a++b", ["aab", "aa"]),
    ],
)
def test_it_is_the_language_of_re(text: str, values: list[str]) -> None:
    assert [read_pattern(text).matches(value) for value in values] == [expected(text, value) for value in values]


def test_what_re_itself_would_take_all_memory_for() -> None:
    text = "(?:(?:a?){60000}){60000}"
    assert [read_pattern(text).matches(value) for value in ("", "aa", "b")] == [True, True, False]


PIECES = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\w", "é", "(?:)", "^", "$", r"\b", r"\B", r"\Z", "(?=a)", "(?!b)", "(?<=a)",
     "(?<!b)", "(?i:A)", "\n", "[a-é]"]
)  # fmt: skip
EXPRESSIONS = st.recursive(
    PIECES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,3}", "{0,2}?", "{2,}"])).map(
            lambda both: f"(?:{both[0]}){both[1]}"
        ),
        inner.map(lambda part: f"(?={part})"),
        inner.map(lambda part: f"(?!{part})"),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS, st.text(alphabet="abAé\n ", max_size=7))
def test_following_all_ways_at_once_finds_what_re_finds(text: str, value: str) -> None:
    at_once = Pattern(text)
    at_once._pattern = None
    try:
        found = at_once.matches(value)
    except TooMuchWork:
        return
    assert found == expected(text, value), (text, value)
    assert at_once.begins(value) == (re.match(text, value) is not None), (text, value)
    assert at_once.occurs(value) == (re.search(text, value) is not None), (text, value)


@given(st.text(alphabet="ab()[]{}|*+?.^$\\1,-:=!<>iP", max_size=20), st.text(alphabet="ab1", max_size=6))
def test_a_text_is_a_pattern_or_a_value_error(text: str, value: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            made = Pattern(text)
        except ValueError:
            with pytest.raises((re.error, OverflowError)):
                re.compile(text)
            return
        try:
            found = made.matches(value)
        except TooMuchWork:
            return
        assert found == expected(text, value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(a+)+$", "a" * 5000 + "!"),
        ("(a|aa)+$", "a" * 5000 + "!"),
        ("(a|a?)+$", "a" * 300 + "!"),
        ("(.*a){20}", "a" * 5000 + "!"),
        ("(x+x+)+y", "x" * 5000),
        (".*.*.*=.*", " " * 200_000),
        ("((a{0,100}){0,100}){0,100}b", "a" * 5000),
        (r"(.+)\1+x", "ab" * 5000),
        ("(?=(a+)+$)a*!", "a" * 5000 + "!"),
        ("(?:a|b|ab)*c", "ab" * 200_000),
        ("(?:(?=.*a.*b.*c.*d)a)*", "a" * 10_000),
        ("(" * 90 + "a" + ")*" * 90 + "b", "a" * 500),
        ("(?:(?:(?:a?){60000}){60000}){60000}b", "a" * 500),
        ("(?:|){60000}" * 200 + "b", "a"),
    ],
)
def test_no_pattern_takes_long(text: str, value: str) -> None:
    start = time.process_time()
    try:
        assert not read_pattern(text).matches(value)
    except TooMuchWork as error:
        assert "too" in str(error)
    assert time.process_time() - start < 0.5


@pytest.mark.parametrize(
    "text",
    [
        "[Ā-\uffff]" * 2000,
        "(?i)" + "[Ā-\uffff]" * 2000,
        "(?i)" + "[a-z]" * 4000,
        "(?i)" + "ſ" * 20_000,
        "a|" * 10_000,
        "(a)" * 5000,
        "a{1,60000}" * 2000,
        r"\w" * 10_000,
        "(?:a{0,3}b?)*" * 2000,
        "(?<=" + "(?:a|b)" * 3000 + ")",
        "x{4294967294}" * 1000,
    ],
)
def test_no_pattern_takes_long_to_prepare(text: str) -> None:
    start = time.process_time()
    made = read_pattern(text)
    with suppress(TooMuchWork):
        made.matches("ab" * 20)
    assert time.process_time() - start < 1


def test_what_is_no_pattern() -> None:
    for text in ("(", "[", "*", "a**", "(?<=a*)b", "(" * 5000 + ")" * 5000, "x{99999999999}", r"\p{L}", "(?P<1>a)"):
        with pytest.raises(ValueError):
            read_pattern(text)
