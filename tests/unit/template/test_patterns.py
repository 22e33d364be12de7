"""Regular expressions: RE2's notation, look-aheads at the beginning, limits."""

import re
import warnings
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.template.patterns import MAX_LENGTH, CompiledPattern, Pattern, StepMeter, TooMuchWork
from tests.tables import table


def pattern(text: str) -> Pattern:
    return Pattern(text, StepMeter().charge)


def program(text: str) -> CompiledPattern:
    return CompiledPattern(text, StepMeter().charge)


WINDOWS_PASSWORD = (
    r"(?=^.{6,255}$)((?=.*\d)(?=.*[A-Z])(?=.*[a-z])|(?=.*\d)(?=.*[^A-Za-z0-9])(?=.*[a-z])"
    r"|(?=.*[^A-Za-z0-9])(?=.*[A-Z])(?=.*[a-z])|(?=.*\d)(?=.*[A-Z])(?=.*[^A-Za-z0-9]))^.*"
)


@table(
    ("text", "values"),
    [
        ("", ["", "a"]),
        ("[a-z][a-z0-9]*", ["a", "a1", "1a", ""]),
        (r"(\d{1,3}\.){3}\d{1,3}", ["192.168.1.20", "192.168.1", "1.2.3.4444"]),
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
        (r"(a{2,4}?){2,3}", ["aaaa", "aaa", "a" * 12, "a" * 13]),
        (r"(|a)+", ["", "aaa"]),
        (r"[一-鿿a-z\d]+", ["漢字a1", "漢 字"]),
        (r"[_0-9a-zA-Z\u4e00-\u9fa5]+", ["a漢", "é"]),
        (r"\U0001F600\x41\u0042?", ["😀A", "😀AB"]),
        (r"(?i)[a-f][g-l][m-r][s-z]+(x|y)*", ["AGMSS", "agmx", "agmſ", "1gms"]),
        (r"(\w|\d)+", ["abc", "_-"]),
        ("[]a]+", ["]a", "b"]),
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
    assert [pattern(text).matches(value) for value in values] == expected


PIECES = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", "é", "(?:)", "^", "$", r"\w", r"\d", r"\s", r"\Z", "(?i:A)", "\n", "[a-é]"]
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
VALUES = st.text(alphabet="abA-1 ", max_size=7)


@given(CONDITIONS, EXPRESSIONS, VALUES)
def test_random_expressions_match_as_with_python(conditions: str, text: str, value: str) -> None:
    whole = f"{conditions}(?:{text})" if conditions else text
    assert pattern(whole).matches(value) == (re.fullmatch(whole, value) is not None), (whole, value)


@given(EXPRESSIONS, VALUES)
def test_the_beginning_matches_as_with_python(text: str, value: str) -> None:
    assert program(text).begins(value) == (re.match(text, value) is not None), (text, value)


@given(st.text(alphabet="ab()[]{}|*+?.^$\\1,-:=!<>iP", max_size=20), st.text(alphabet="ab1", max_size=6))
def test_any_text_is_a_pattern_or_a_value_error(text: str, value: str) -> None:
    with warnings.catch_warnings(), suppress(ValueError):
        warnings.simplefilter("ignore", FutureWarning)
        pattern(text).matches(value)


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
        ("(" * 101 + ")" * 101, "more than 100 groups"),
        ("a" * (MAX_LENGTH + 1), "at most 2000 characters, this one has 2001"),
        ("a{,3}", "write {0,n} in place of {,n}"),
        (r"\C", "bad escape"),
        (r"[a-f\PN]", "bad escape"),
    ],
)
def test_invalid_and_unsupported_patterns(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        pattern(text)


def test_letters_beyond_ascii_are_no_words() -> None:
    """A difference from Heat."""
    assert not pattern(r"\w").matches("é")
    assert pattern(r"[[:alpha:]]\W").matches("aé")


@pytest.mark.slow
def test_the_patterns_of_a_template_share_their_steps() -> None:
    charge = StepMeter().charge
    large = Pattern("(?:a?){1000}b", charge)
    with pytest.raises(TooMuchWork, match="too many steps"):
        for _ in range(1000):
            large.matches("a" * 1000)


@pytest.mark.slow
def test_many_short_values_are_no_work() -> None:
    charge = StepMeter().charge
    name = Pattern("[a-z][a-z0-9-]{0,62}", charge)
    assert all(name.matches("a-name-of-usual-length") for _ in range(20_000))
