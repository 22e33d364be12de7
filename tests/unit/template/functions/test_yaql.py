"""The function `yaql`: values, limits, faults, and a missing library."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.errors import HeatliteError, StackValidationFailed
from heatlite.core.json import Json
from heatlite.template.definitions import conditions
from heatlite.template.document import Template
from heatlite.template.environment import Environment
from heatlite.template.expression import UNKNOWN, resolve
from heatlite.template.functions import yaql as functions_yaql
from heatlite.template.functions.yaql_bounds import CALL, CALL_BACK, STEP
from tests.tables import sampled, table


class Stack:
    def reference(self, _name: str) -> object:
        return UNKNOWN

    def attribute(self, _name: str, _attribute: str | None, _path: Sequence[object]) -> object:
        return UNKNOWN


def evaluate(expression: Json, *data: Json, version: str = "2021-04-16") -> object:
    call: dict[str, Json] = {"expression": expression}
    if data:
        call["data"] = data[0]
    document: dict[str, Json] = {
        "heat_template_version": version,
        "parameters": {"list": {"type": "comma_delimited_list", "default": "a,b"}},
        "resources": {"r": {"type": "T"}},
        "outputs": {"o": {"value": {"yaql": call}}},
    }
    return resolve(Template(document).bind(Environment(), {}).outputs["o"].value, Stack())


@table(
    ("expression", "data", "result"),
    [
        ("$.data", [1, {"a": None}], [1, {"a": None}]),
        ("$.data.where($ > 1).sum()", [1, 2, 3], 5),
        ("$.data.select($ + 1)", [1, 2], [2, 3]),
        ("dict($.data.select([$.k, $.v]))", [{"k": "a", "v": 1}], {"a": 1}),
        ("$.data.toDict($.id, $.k)", [{"id": 1, "k": "a"}, {"id": None, "k": 2}], {"1": "a", "null": 2}),
        ("$.data.toUpper()", "abc", "ABC"),
        ("set(1, 1)", None, [1]),
        ("$.data.flatten().distinct()", [[1, 2], [2]], [1, 2]),
        ("$.data * 2", 4, 8),
        ("'ab' * 2", None, "abab"),
        ("[1, 2] * 2", None, [1, 2, 1, 2]),
        ("pow(2, 10)", None, 1024),
        ("pow(2, 10, 1000)", None, 24),
        ("$.data =~ '^a.c$'", "abc", True),
        ("$.data !~ '^a.c$'", "abc", False),
        ("$.data.matches('b+')", "abbc", True),
        ("regex('B+', ignoreCase => true).search($.data)", "abbc", "bb"),
        ("regex(',').split($.data)", "a,b", ["a", "b"]),
        ("$.data.split(regex(','))", "a,b", ["a", "b"]),
        ("regex('b+').searchAll($.data)", "abbab", ["bb", "b"]),
        ("regex('b(x)?').split($.data, 1)", "abbab", ["a", None, "bab"]),
        ("regex('(b)(c)').search($.data, $2.value + $3.value)", "abc", "bc"),
        ("regex('b+').replace($.data, x)", "abbab", "axax"),
        ("$.data.replace(regex('(b+)'), '<\\\\1>')", "abbab", "a<bb>a<b>"),
        ("regex('b+').replaceBy($.data, $.value + '!')", "abbab", "abb!ab!"),
        ("$.data.replaceBy(regex('b+'), $.value.toUpper())", "abbab", "aBBaB"),
        ("$.data =~ regex('^B', ignoreCase => true, multiLine => true)", "a\nb", True),
        ("$.data !~ regex('b$')", "ab", False),
        ("regex('.b', dotAll => true).matches($.data)", "\nb", True),
        ("isRegex(regex(a))", None, True),
        ("regex('é+').replace($.data, 'ü\\\\n')", "aéé漢", "aü\\n漢"),
        ("regex('\\\\w+').searchAll($.data)", "né Ω2", ["n", "2"]),
        # Linear time, whatever the pattern is.
        ("regex('((a+))+$').matches($.data)", "a" * 40 + "!", False),
        ("$.data =~ regex('(a+)+$')", "a" * 40 + "!", False),
        ("$.data !~ regex('(a+)+$')", "a" * 40 + "!", True),
        ("regex('(a+)+$').search($.data)", "a" * 40 + "!", None),
        ("regex('(a|aa)+$').searchAll($.data)", "a" * 40 + "!", []),
        ("regex('(a+)+$').split($.data)", "aa!aa", ["aa!", "aa", ""]),
        ("$.data.split(regex('(a+)+$'))", "a" * 40 + "!", ["a" * 40 + "!"]),
        ("regex('(a+)+$').replace($.data, b)", "a" * 40 + "!", "a" * 40 + "!"),
        ("$.data.replaceBy(regex('(a+)+$'), $)", "a" * 40 + "!", "a" * 40 + "!"),
        ("regex('.*.*.*b').search($.data)", "a" * 2000, None),
        ("regex('(?i)[a-z][b-y][c-x][d-w]').search($.data)", "abcdE", "abcd"),
        ("$.data =~ '(a+)+$'", "a" * 40 + "!", False),
        ("$.data !~ '(a|aa)+$'", "a" * 4000 + "!", True),
        ("$.data.matches('(a|b*)*c')", "a" * 40 + "!", False),
    ],
)
def test_results(expression: str, data: Json, result: object) -> None:
    assert evaluate(expression, data) == result


def test_without_data_and_with_functions_in_it() -> None:
    assert evaluate("$.data") == {}
    assert evaluate("$.data.len()", {"get_param": "list"}) == 2
    assert evaluate({"list_join": ["", ["$.", "data"]]}, 5) == 5
    assert evaluate("$.data.len()", [{"get_attr": ["r", "x"]}]) is UNKNOWN


@table(
    ("expression", "told"),
    [
        ("$.data.", "Bad expression '$.data.'"),
        ("(" * 3000, "Bad expression"),
        (5, "must be a string"),
        (None, "must be a string"),
        ("$" * 10_001, "more than 10000 characters"),
        ({"get_file": "zz"}, "No content found"),
    ],
)
def test_bad_expressions(expression: Json, told: str) -> None:
    with pytest.raises(StackValidationFailed) as caught:
        evaluate(expression)
    assert told in caught.value.message


def test_an_expression_is_parsed_when_the_template_is() -> None:
    document: dict[str, Json] = {
        "heat_template_version": "rocky",
        "resources": {"r": {"type": "T", "properties": {"v": {"yaql": {"expression": "("}}}}},
    }
    with pytest.raises(StackValidationFailed, match=r"^resources\.r\.properties\.v\.yaql: Bad expression"):
        Template(document).bind(Environment(), {})


@table("arguments", ["a", [], {}, {"data": 1}, {"expression": "1", "zz": 1}])
def test_bad_arguments(arguments: Json) -> None:
    document: dict[str, Json] = {"heat_template_version": "rocky", "outputs": {"o": {"value": {"yaql": arguments}}}}
    with pytest.raises(StackValidationFailed, match=r"outputs\.o\.value\.yaql"):
        Template(document).bind(Environment(), {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("expression", "data"),
    sampled(
        [
            ("range(0, 1000)", None),
            ("$.data", [0] * 201),
            ("'a' * 100000000", None),
            ("[1] * 1000000000", None),
            ("pow(10, 10000000)", None),
            ("shiftBitsLeft(1, 1000000)", None),
            ("regex('a').replace($.data, $.data)", "a" * 9000),
            ("regex('.*!|a').searchAll($.data)", "a" * 9000),
            ("regex('(?:(?:(?:a?b?){10}){10}){10}c|a|b').split($.data)", "ab" * 1000),
            ("$.data =~ '(a)(?=.*\\\\1\\\\1\\\\1)(a+)+b'", "a" * 3000),
            ("def(f, f($)) -> f(1)", None),
            # Iterators without an end, or as good as that, in functions that have no limit of their own.
            ("range(1000000000).len()", None),
            ("range(10, -1000000000, -1).len()", None),
            ("sequence(0).len()", None),
            ("[1].cycle().len()", None),
            ("generate(0, true, $ + 1).len()", None),
            ("generate(1, false or true, $ * 3, decycle => true).len()", None),
            ("generateMany(1, [$ + 1]).len()", None),
            ("generateMany(1, sequence(0), decycle => true).len()", None),
            ("[range(1000000000)].flatten().len()", None),
            ("[sequence(0)].select($.len())", None),
            ("call(len, [sequence(0)], {})", None),
            # Each is within the library's limits, all together are not.
            ("range(190).selectMany(range(190)).select(range(190).sum()).len()", None),
            ("range(200).select(range(200).join(range(200), false, 1).len()).sum()", None),
            ("range(200).where(range(200).any(range(200).any(range(200).any(false)))).len()", None),
            # Nested shared values: little memory until they are printed, compared or hashed.
            ("generate([1], true, [$, $]).skip(40).first().zz()", None),
            ("generate([1], true, [$, $]).skip(40).first() = generate([1], true, [$, $]).skip(40).first()", None),
            ("generate([1], true, [$, $]).skip(40).first() in set()", None),
            ("str(generate([1], true, {a => $, b => $}).skip(40).first())", None),
            # One call that takes long or makes much.
            ("shiftBitsLeft(1, 1000000000)", None),
            ("pow(3, pow(2, 7000), pow(2, 7000) - 1)", None),
            ("round(5, -1000000000)", None),
            ("('a' * 9000).replace(a, 'b' * 9000)", None),
            ("('a' * 9000).replace('', 'b' * 9000)", None),
            ("('a' * 9000).replace({a => 'b' * 9000})", None),
            ("10000000000 * [1, 2]", None),
            ("datetime(2016, 1, 1).format('%1000000000Y')", None),
        ],
        6,
    ),
)
def test_no_expression_runs_away(expression: str, data: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tenth of the work that a template may do, it takes a tenth of the time."""
    monkeypatch.setattr(conditions, "MAX_WORK", conditions.MAX_WORK // 10)
    started = time.thread_time()
    with pytest.raises(StackValidationFailed) as caught:
        evaluate(expression, data)
    assert time.thread_time() - started < 1  # whatever else the machine does
    assert len(caught.value.message) < 1000


@table(
    "expression",
    [
        "str(range(5))", "str([range(5)])", "str(let(a => 1))", "str([1].orderBy($))", "[range(5)].zz()", "let().len()",
        "[sequence(0)].join(' ')", "concat(a, str(sequence(0)))",
    ],
)  # fmt: skip
def test_no_address_of_memory_is_told(expression: str) -> None:
    with pytest.raises(StackValidationFailed) as caught:
        evaluate(expression)
    assert "0x" not in caught.value.message


def test_each_call_and_each_step_is_work_of_the_template() -> None:
    """Counted, not timed."""
    charged: list[int] = []

    def work(expression: str) -> int:
        charged.clear()
        query = functions_yaql._language()(expression)
        query({"many": list(range(100))}, charged.append)
        return sum(charged)

    few, many = work("range(100).len()"), work("range(1100).len()")
    assert many - few == 1000 * STEP
    assert work("$.data.many.select($ + 1)") >= 100 * (CALL_BACK + CALL)
    assert work("$.data.many.len() + $.data.many.len()") < 20 * CALL


@table(
    ("expression", "data"),
    [
        ("1 / 0", None),
        ("$.data.zz", {}),
        ("$.data.zz()", {}),
        ("now()", None),
        ("regex('(')", None),
        ("$.data + 1", {}),
        ("pow(10, 5000)", None),
        ("{a => [pow(10, 5000)]}", None),
        ("dict(pow(10, 5000) => 1)", None),
    ],
)
def test_what_fails_is_an_error_of_ours(expression: str, data: Json) -> None:
    with pytest.raises(StackValidationFailed):
        evaluate(expression, data)


def test_as_a_condition() -> None:
    for version, fine in (("2017-09-01", True), ("2017-02-24", False)):
        document: dict[str, Json] = {
            "heat_template_version": version,
            "parameters": {"list": {"type": "comma_delimited_list", "default": "a,b"}},
            "conditions": {"c": {"yaql": {"expression": "$.data.len() > 1", "data": {"get_param": "list"}}}},
            "resources": {"r": {"type": "T", "condition": "c"}},
        }
        if fine:
            assert "r" in Template(document).bind(Environment(), {}).resources
        else:
            with pytest.raises(StackValidationFailed, match="invalid in this context"):
                Template(document).bind(Environment(), {})


WITHOUT = """
import sys
sys.modules["yaql"] = None  # an import statement then fails
from heatlite.template.definitions import conditions
from heatlite.template.document import Template
from heatlite.template.environment import Environment
document = {"heat_template_version": "rocky", "outputs": {"o": {"value": {"yaql": {"expression": "1"}}}}}
for problem in Template(document).definition(Environment(), {}).findings.ordered():
    print(problem.text)
"""


@pytest.mark.slow
def test_the_extra_is_named_where_the_library_is_missing() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        'outputs.o.value.yaql: The function "yaql" needs the library yaql: in the folder of heatlite\'s source,'
        " pip install '.[server]'"
    )


@pytest.mark.slow
def test_the_library_is_imported_only_when_used() -> None:
    script = (
        "import sys; from heatlite.template.document import Template; "
        "from heatlite.template.environment import Environment; "
        "Template({'heat_template_version': 'rocky'}).bind(Environment(), {}); print('yaql' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@given(st.lists(st.integers(-5, 5), max_size=10))
def test_where_and_its_opposite_make_the_whole(numbers: list[int]) -> None:
    kept, left = evaluate("$.data.where($ > 0)", list(numbers)), evaluate("$.data.where(not $ > 0)", list(numbers))
    assert isinstance(kept, list) and isinstance(left, list)
    assert sorted(kept + left) == sorted(numbers)


@given(st.text("$.data()[]{}'=><,+*a1 ", max_size=20))
def test_any_text_is_a_result_or_an_error_of_ours(expression: str) -> None:
    with contextlib.suppress(HeatliteError):
        evaluate(expression, {"a": [1, 2]})
