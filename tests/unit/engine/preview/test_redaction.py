"""Redaction of a value: compare with its evaluation without hidden parameters."""


from heatlite.core.json import Json
from heatlite.core.redaction.masking import MASK
from heatlite.engine.preview.redaction import KNOWN_LATER, redacted, shown
from heatlite.template.expression import UNKNOWN
from tests.tables import table

CASES: list[tuple[str, object, object, Json]] = [
    ("the same without secrets", "x", "x", "x"),
    ("null is a value", None, None, None),
    ("an unknown value is not known with secrets either", UNKNOWN, UNKNOWN, KNOWN_LATER),
    ("it may become known without them", UNKNOWN, "x", KNOWN_LATER),
    ("it becomes unknown: it depends on a secret", "secret", UNKNOWN, MASK),
    ("it becomes different: a condition depends on a secret", "on", "off", MASK),
    ("another type is different, too", 1, "1", MASK),
    ("only the part of a map is hidden", {"a": "s", "b": 1}, {"a": UNKNOWN, "b": 1}, {"a": MASK, "b": 1}),
    ("only the part of a list is hidden", ["s", 1], [UNKNOWN, 1], [MASK, 1]),
    ("at any depth", {"a": [{"b": "s"}]}, {"a": [{"b": UNKNOWN}]}, {"a": [{"b": MASK}]}),
    ("the keys of a map may be secret", {"s": 1}, {"x": 1}, MASK),
    ("so may the number of its keys", {"a": 1, "s": 1}, {"a": 1}, MASK),
    ("so may the length of a list", ["a", "s"], ["a"], MASK),
    ("a map in place of another value", {"a": 1}, "x", MASK),
]


@table(("value", "known", "found"), [case[1:] for case in CASES])
def test_redacted(value: object, known: object, found: Json) -> None:
    assert redacted(value, known) == found


def test_a_value_without_secrets_is_shown() -> None:
    assert shown({"a": ["x", UNKNOWN]}) == {"a": ["x", KNOWN_LATER]}
