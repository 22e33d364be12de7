"""Regular expressions of templates: Python's notation, RE2's limits."""

import re
import time
import warnings
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.template.patterns import Pattern, Program, TooMuchWork, read_pattern
from tests.tables import table

WINDOWS_PASSWORD = (
    r"(?=^.{6,255}$)((?=.*\d)(?=.*[A-Z])(?=.*[a-z])|(?=.*\d)(?=.*[^A-Za-z0-9])(?=.*[a-z])"
    r"|(?=.*[^A-Za-z0-9])(?=.*[A-Z])(?=.*[a-z])|(?=.*\d)(?=.*[A-Z])(?=.*[^A-Za-z0-9]))^.*"
)


@table(
    ("text", "values"),
    [
        ("", ["", "a"]),
        ("[a-z][a-z0-9]*", ["a", "a1", "1a", ""]),
        (r"(\d{1,3}\.){3}\d{1,3}", ["192.168.1.20", "192.168.1", "1.2.3.4444", "١٩٢.1.1.1"]),
        (r"^([a-z0-9]+(-[a-z0-9]+)*\.)+[a-z]{2,}$", ["a-b.c.org", "a--b.org", "org", "a.o", "a-b.c.org\n"]),
        (r"(a|b|ab)*c", ["ababc", "abab", "c"]),
        (r"(a+)+b", ["aaab", "aaa", "b"]),
        (r"(?i)[a-z]+É(x|y)*", ["abcéXy", "ABCÉ", "abce"]),
        (r"(?:(?i:[a-z]b)|c)+", ["aBc", "aBC"]),
        (r"(?s)(.|b)*", ["a\nb"]),
        (r"(.|b)*", ["a\nb", "ab"]),
        (r"(?m)(^a$\n?)+", ["a\na\n", "a\nb"]),
        (r"(\b\w+\b\W*)+", ["ab, cd", ", ab"]),
        (r"(\Ba|b)+\Z", ["ba", "ab"]),
        (r"(\w|\d)+", ["abc", "é", "٣", "²", "_-"]),
        (r"\s+\S\D\W", ["\x0b\u2003é-%", " ax漢", "\x1c٣a "]),
        (r"[^\w]+[\s\S]*", ["- a", "é", "--é"]),
        (r"(a{2,4}?){2,3}", ["aaaa", "aaa", "a" * 12, "a" * 13]),
        (r"(|a)+", ["", "aaa"]),
        (r"[一-鿿a-z\d]+", ["漢字a1", "漢 字"]),
        (r"[_0-9a-zA-Z\u4e00-\u9fa5]+", ["a漢", "é"]),
        (r"\U0001F600\x41\u0042?", ["😀A", "😀AB"]),
        (r"(?i)[a-f][g-l][m-r][s-z]+(x|y)*", ["AGMSS", "agmx", "agmſ", "1gms"]),
        ("[x[:alpha:]]", ["a]", "[]", "b"]),
        ("[]a]+", ["]a", "b"]),
        ("a{,3}", ["", "aaa", "aaaa", "a{,3}"]),
        (r"(?P<n>a)\$", ["a$", "a"]),
        # look-ahead
        (r"(?=.*[A-Z])(?=.*[0-9])(?!.*\s).{8,}", ["Passw0rd1", "passw0rd1", "Passw0 rd1"]),
        (r"((?=.*\d)(?=.*[a-z])(?=.*[A-Z]).{6,20})", ["Passw0rd1", "passw0rd1", "Aa1"]),
        (r"^((?=.*\d)|(?=.*[a-z]).{3})$", ["Passw0rd1", "a12", "abc", "a12a", ""]),
        ('^(?!.*["\\r\\n\\f]).*$', ["abc", 'a"b']),
        ("(?=a)b|c|(?=d)d+|^(?!f).", ["b", "c", "ddd", "a", "d", "f"]),
        ("(?=(?:a|b))[a-z]+", ["ac", "ca"]),
        ("(?=a)", ["", "a"]),
        ("(?=)", ["", "a"]),
        (r"[a-z]+(?=[.-][a-z])*\.[a-z]+(?!x)?", ["a.com", "a-b.com", "acom"]),
        (WINDOWS_PASSWORD, ["Passw0rd", "password", "Pw0rd", "pass word1", "PASS-w1", "P0-" * 80]),
    ],
)
def test_the_same_values_match_as_with_python(text: str, values: list[str]) -> None:
    expected = [re.fullmatch(text, value) is not None for value in values]
    assert [read_pattern(text).matches(value) for value in values] == expected


PIECES = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", "é", "(?:)", "^", "$", r"\w", r"\W", r"\d", r"\s", r"\Z", "(?i:A)", "\n", "[a-é]"]
)
EXPRESSIONS = st.recursive(
    PIECES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,3}", "{0,2}?", "{2,}"])).map(
            lambda both: f"(?:{both[0]}){both[1]}"
        ),
    ),
    max_leaves=8,
)
CONDITIONS = st.lists(st.tuples(st.sampled_from(["(?=", "(?!"]), EXPRESSIONS), max_size=3).map(
    lambda given: "".join(f"{opening}{inside})" for opening, inside in given)
)  # fmt: skip
VALUES = st.text(alphabet="abAé1 ", max_size=7)


@given(CONDITIONS, EXPRESSIONS, VALUES)
def test_random_expressions_match_as_with_python(conditions: str, text: str, value: str) -> None:
    whole = f"{conditions}(?:{text})" if conditions else text
    assert read_pattern(whole).matches(value) == (re.fullmatch(whole, value) is not None), (whole, value)


@given(EXPRESSIONS, VALUES)
def test_the_beginning_matches_as_with_python(text: str, value: str) -> None:
    assert Program(text).begins(value) == (re.match(text, value) is not None), (text, value)


@given(st.text(alphabet="ab()[]{}|*+?.^$\\1,-:=!<>iP", max_size=20), st.text(alphabet="ab1", max_size=6))
def test_any_text_is_a_pattern_or_a_value_error(text: str, value: str) -> None:
    with warnings.catch_warnings(), suppress(ValueError):
        warnings.simplefilter("ignore", FutureWarning)
        read_pattern(text).matches(value)


@table(
    ("text", "value"),
    [
        ("(a+)+$", "a" * 5000 + "!"),
        ("(a|aa)+$", "a" * 5000 + "!"),
        ("(.*a){20}", "a" * 5000 + "!"),
        ("(x+x+)+y", "x" * 5000),
        (".*.*.*=.*", " " * 200_000),
        ("((a{0,10}){0,10}){0,10}b", "a" * 5000),
        ("(?=(a+)+$)a*!", "a" * 5000 + "!"),
        ("(?:a|b|ab)*c", "ab" * 200_000),
        ("(" * 90 + "a" + ")*" * 90 + "b", "a" * 500),
        ("(?:.*a.{300})|(?:.*b.{200}b)", "abbabaabaabbabbabab" * 10_000),
        (r"(?:\w{0,9}\s?){9}!", "né " * 10_000),
        (r"\w{1000}", "é" * 1000),
    ],
)
def test_no_pattern_takes_long(text: str, value: str) -> None:
    start = time.thread_time()
    try:
        assert not read_pattern(text).matches(value)
    except TooMuchWork as error:
        assert "too" in str(error)
    assert time.thread_time() - start < 0.5


@pytest.mark.full
@table(
    "text",
    [
        "[Ā-\uffff]" * 2000,
        "(?i)" + "[Ā-\uffff]" * 2000,
        "(?i)" + "ſ" * 20_000,
        "a|" * 10_000,
        "(a)" * 5000,
        "a{1,1000}" * 2000,
        "(?:(?:(?:a?){60000}){60000}){60000}b",
        r"\w" * 10_000,
        "(?:a{0,3}b?)*" * 2000,
        "(?=" + "(?:a|b)" * 3000 + ")",
        "(?=" * 5000,
        "(?=a)" * 5000,
        "(" * 5000 + "(?=a)" + ")" * 5000,
    ],
)
def test_no_pattern_takes_long_to_prepare(text: str) -> None:
    start = time.thread_time()
    with suppress(ValueError):
        read_pattern(text).matches("ab" * 20)
    assert time.thread_time() - start < 1


@table(
    ("text", "told"),
    [
        ("(", "missing )"),
        ("[", "missing ]"),
        ("*", "no argument for repetition"),
        ("a**", "bad repetition operator"),
        ("(?:a?){1001}", "invalid repetition size"),
        (r"(.)\1", "invalid escape"),
        (r"\p{L}", "bad escape"),
        (r"[\pL]", "bad escape"),
        ("(?<=a)b", "look-around is only supported as look-ahead at the beginning"),
        ("a(?=b)b", "look-around is only supported as look-ahead at the beginning"),
        ("(?:a(?=b)|c)d", "look-around is only supported as look-ahead at the beginning"),
        ("(?=a", "missing )"),
        ("(?=a)" * 101, "more than 100 groups"),
    ],
)
def test_invalid_and_unsupported_patterns(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        Pattern(text)
