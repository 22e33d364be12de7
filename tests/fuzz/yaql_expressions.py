"""Random expressions of `yaql` over all functions, with a watchdog.

``python -m tests.fuzz.yaql_expressions SEED COUNT`` prints what took too long, held too much memory or gave an address
away. A loop in C hears nothing, so the limits are the kernel's: the process dies of what never ends.
"""

import random
import resource
import sys
import time
from typing import Final

from heatlite.core.errors import StackValidationFailed
from heatlite.core.json import Json
from heatlite.template.document import Template
from heatlite.template.environment import Environment
from heatlite.template.expression import UNKNOWN, resolve
from heatlite.template.functions import yaql as functions_yaql
from tests.fuzz.targets import Live

SECONDS: Final = 10.0
"""Processor time of one expression, many times a template's limit."""
MEGABYTES: Final = 1000
"""Address space of the process."""

DATA: Final[Json] = {"list": [1, 2, 3], "map": {"a": 1, "b": [2]}, "text": "a,b", "many": list(range(150))}
ENDLESS: Final = (
    "sequence(0)", "range(1000000000)", "[1].cycle()", "generate(1, true, $ + 1)", "generateMany(1, [$ + 1])",
)  # fmt: skip
LARGE: Final = (
    "'ab' * 4000", "pow(2, 7000)", "[1] * 200", "generate([1], true, [$, $]).skip(30).first()", "$.data.many",
)  # fmt: skip
PLAIN: Final = (
    "1", "0", "-1", "1000000000", "2.5", "true", "null", "a", "''", "'%d'", "[]", "{}", "[1, [2]]", "{a => {b => 1}}",
    "$", "$.data", "$.data.list", "$.data.map", "$.data.text", "regex('a*')", "datetime(2016, 1, 1)",
    "timespan(days => 1)", "set(1, 2)", "[1, 2].orderBy($)", "$1", "$2",
)  # fmt: skip
LAMBDAS: Final = ("$", "true", "false", "[$]", "$ + $", "[$1, $2]", "$.len()", "str($)", "$ = $")
OPERATORS: Final = ("+", "-", "*", "/", "mod", "=", "!=", "<", ">", "in", "and", "or", "=~", "->", ".", "?.")


def names() -> list[str]:
    """Those of all functions of the library, ours in their place."""
    context, found = functions_yaql.root_context(), set[str]()
    while context is not None:
        found |= {name for name in context._functions if name.isalnum()}
        context = context.parent
    return sorted(found - {"now", "random"})


class Expressions:
    """Draws them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names = names()

    def draw(self, depth: int = 3) -> str:
        """One expression."""
        pick = self._random.random()
        if depth == 0 or pick < 0.15:
            pools = (PLAIN, PLAIN, LAMBDAS, ENDLESS, LARGE)
            return self._random.choice(self._random.choice(pools))
        if pick < 0.25:
            return f"({self.draw(depth - 1)} {self._random.choice(OPERATORS)} {self.draw(depth - 1)})"
        if pick < 0.3:
            return f"[{self.draw(depth - 1)}, {self.draw(depth - 1)}]"
        if pick < 0.33:
            return f"(let(x => {self.draw(depth - 1)}) -> [$x, $x, {self.draw(depth - 1)}])"
        if pick < 0.36:
            return f"(def(f, {self.draw(depth - 1)}) -> f({self.draw(depth - 1)}))"
        name, count = self._random.choice(self._names), self._random.choice((0, 0, 1, 1, 1, 2, 2, 3))
        arguments = [
            self._random.choice(LAMBDAS) if self._random.random() < 0.4 else self.draw(depth - 1) for _ in range(count)
        ]
        given = ", ".join(arguments)
        return f"({self.draw(depth - 1)}).{name}({given})" if self._random.random() < 0.75 else f"{name}({given})"


def evaluated(expression: str) -> object:
    """Its result in a template of its own. Raises StackValidationFailed."""
    document: dict[str, Json] = {
        "heat_template_version": "2021-04-16",
        "outputs": {"o": {"value": {"yaql": {"expression": expression, "data": DATA}}}},
    }
    result = resolve(Template(document).bind(Environment(), {}).outputs["o"].value, Live())
    assert result is not UNKNOWN
    return result


def tried(expression: str) -> str:
    """Return an error in the answer to the expression, or ""."""
    start = time.thread_time()
    try:
        said = repr(evaluated(expression))
    except StackValidationFailed as error:
        said = error.message
    seconds = time.thread_time() - start
    if seconds > SECONDS:
        return f"{seconds:.1f} s"
    return "an address" if " at 0x" in said else ""


def main() -> None:
    """Try so many expressions of a seed; each is on the screen before it is tried."""
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    evaluated("1")
    resource.setrlimit(resource.RLIMIT_AS, (MEGABYTES << 20, MEGABYTES << 20))
    drawn = Expressions(seed)
    for _ in range(count):
        expression = drawn.draw()
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime + 2 * SECONDS)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        print(expression, file=sys.stderr, flush=True)
        wrong = tried(expression)
        if wrong:
            print(f"{wrong}: {expression}", flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main()
