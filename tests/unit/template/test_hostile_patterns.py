"""Processor time and memory that hostile patterns of requests take.

A process of its own tries them, since memory that was once taken counts. It may take 2 GB.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from heatlite.core.errors import HeatliteError
from heatlite.core.json import Json
from heatlite.features.healing.rules.policy import check_policy, read_policy
from heatlite.plugin.registry import Registry
from heatlite.template.document import Template
from heatlite.template.environment import Environment
from heatlite.template.source.loader import load_mapping
from tests.resource_types import ALL_TYPES

MAX_SECONDS: Final = 5
"""Of the processor, for one request."""
MAX_MEGABYTES: Final = 150
"""Of memory, more than before."""
SIZE: Final = 2 << 20
"""Bytes of a template."""

AB: Final = "abbabaabaabbabbabab"
LONG: Final[Mapping[str, str]] = {
    "open sets": "[" * 150_000,
    "closed sets": "[a]" * 50_000,
    "open groups": "(" * 150_000,
    "groups": "(" * 50_000 + ")" * 50_000,
    "groups in a row": "(a)" * 50_000,
    "look-aheads": "(?=" * 50_000,
    "look-aheads in a row": "(?=a)" * 50_000,
    "escapes": "\\" * 150_000,
    "letters of Unicode": r"\pL" * 50_000,
    "words": r"\w" * 50_000,
    "branches": "a|" * 50_000,
    "branches with a look-ahead": "(?=a)" + "b|" * 50_000,
    "case": "(?i)" + "ſ" * 50_000,
    "ranges": "[Ā-\uffff]" * 30_000,
    "repeats": "a{1000}" * 20_000,
    "stars": "(?:a*)*" * 20_000,
}
SHORT: Final[Mapping[str, str]] = {
    "backtracking": "(a+)+$",
    "states": "(?:.*a.{300})|(?:.*b.{200}b)",
    "many states": "(?:.*a(?:a|b){900}!)|a|b",
    "nested repeats": "(?:(?:(?:a?b?){10}){10}){10}c|a|b",
    "optional": "(?:a?){1000}b",
    "each": "(?:[ab]{1,9}){1,100}!|a|b",
    "100 groups": "(" * 99 + "a?" + ")" * 99 + "b",
    "100 groups, repeated": "(?:" + "(a?)" * 99 + "){40}b",
    "100 groups, starred": "(?:" + "(a|b|ab)*" * 99 + ")",
    "100 look-aheads": "(?=.*a.*b)" * 50 + "(?!.{900}!)" * 50,
    "large set": "(?i)[Ā-\uffff]{1000}",
    "almost 2000 of \\pL": r"\pL" * 600,
    "almost 2000 sets": "[" * 1990,
    "to the end of the text": ".*!|a|b",
}
VALUES: Final = (AB * 100, "a" * 2000)

Attempt = Callable[[str, str], object]


def allowed_pattern(text: str, value: str) -> None:
    rule: Json = {"type": "string", "default": value, "constraints": [{"allowed_pattern": text}]}
    hot({"p": rule})


def cfn_pattern(text: str, value: str) -> None:
    parameters: Json = {"p": {"Type": "String", "AllowedPattern": text, "Default": value}}
    Template({"AWSTemplateFormatVersion": "2010-09-09", "Parameters": parameters}).bind(Environment(), {})


def hot(parameters: Json, outputs: Json = None) -> None:
    document: dict[str, Json] = {"heat_template_version": "2021-04-16", "parameters": parameters}
    Template(document | ({"outputs": outputs} if outputs else {})).bind(Environment(), {})


def resource_types(text: str, _value: str) -> None:
    Registry(ALL_TYPES).listing(name=text)


def yaql(expression: str) -> Attempt:
    from heatlite.template.expression import resolve

    def attempt(text: str, value: str) -> None:
        quoted = text.replace("\\", "\\\\").replace("'", "\\'")
        call: Json = {"yaql": {"expression": expression % quoted, "data": value}}
        document: dict[str, Json] = {"heat_template_version": "2021-04-16", "outputs": {"o": {"value": call}}}
        resolve(Template(document).bind(Environment(), {}).outputs["o"].value, None)  # type: ignore[arg-type]

    return attempt


def names_of_resources(text: str, _value: str) -> None:
    registry: Json = {"resources": {f"*{text}": {"hooks": "pre-create"}}}
    environment = Environment.parse(load_mapping({"resource_registry": registry}, "env", "Environment"))
    for i in range(1000):
        environment.hooks(f"{'a' * 200}{i}")


def healing_rule(text: str, _value: str) -> None:
    policy: Json = {"healing": {"rules": [{"match": f"*{text}", "mode": "off"}]}}
    check_policy(policy)
    read_policy(policy).at("a" * 255)


PLACES: Final[Mapping[str, Attempt]] = {
    "allowed_pattern": allowed_pattern,
    "AllowedPattern": cfn_pattern,
    "resource_types?name=": resource_types,
    "yaql regex().matches": yaql("regex('%s').matches($.data)"),
    "yaql regex().searchAll": yaql("regex('%s').searchAll($.data).len()"),
    "yaql =~": yaql("$.data =~ '%s'"),
    "yaql of a list": yaql("range(0, 190).select(regex('%s' + str($)).matches($.data)).len()"),
    "names of resources": names_of_resources,
    "healing": healing_rule,
}


def whole_templates() -> Iterator[tuple[str, Callable[[], None]]]:
    """As many patterns as a template has room for, none like another."""
    for name in ("nested repeats", "many states", "large set", "100 groups"):
        text = SHORT[name]
        for value in ("", AB * 50):
            room = SIZE // (len(text.encode()) + len(value) + 80)
            parameters: Json = {
                f"p{i}": {
                    "type": "string", "default": value,
                    "constraints": [{"allowed_pattern": f"(?:{text})|{i}"}],
                }
                for i in range(room)
            }  # fmt: skip
            yield f"{room} of {name}", lambda parameters=parameters: hot(parameters)  # type: ignore[misc]
    rules: Json = [{"allowed_pattern": f"(?:a?){{{n}}}|{i}"} for i, n in zip(range(40_000), count(500))]
    yield "one parameter", lambda: hot({"p": {"type": "string", "constraints": rules}})


def attempts() -> Iterator[tuple[str, Callable[[], object]]]:
    for place, attempt in PLACES.items():
        for name, text in LONG.items():
            yield f"{place}: {name}", lambda attempt=attempt, text=text: attempt(text, "a")  # type: ignore[misc]
        for name, text in SHORT.items():
            for value in VALUES:
                yield (
                    f"{place}: {name}, {value[:2]}…",
                    lambda attempt=attempt, text=text, value=value: attempt(text, value),  # type: ignore[misc]
                )
    yield from whole_templates()


@pytest.mark.slow
def test_no_pattern_of_a_request_takes_much_time_or_memory() -> None:
    command = [sys.executable, "-m", __name__]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    found = json.loads(done.stdout)
    assert found["tried"] > 300
    assert found["slow"] == {}
    assert found["megabytes"] < MAX_MEGABYTES


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
    warm_up = "yaql =~"
    PLACES[warm_up]("a", "a")
    Registry(ALL_TYPES).listing()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    slow, tried = {}, 0
    for name, attempt in attempts():
        begun = time.process_time()
        with suppress(HeatliteError, ValueError):
            attempt()
        tried += 1
        if (taken := time.process_time() - begun) > MAX_SECONDS:
            slow[name] = taken
        print(f"{taken:8.3f} {name}", file=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"tried": tried, "slow": slow, "megabytes": (after - before) >> 10}))


if __name__ == "__main__":
    main()
