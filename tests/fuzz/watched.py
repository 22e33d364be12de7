"""Run every seed and every worst case through its target, in a subprocess.

Prints the audit events of Python that are more than computing; nothing if there are none.
"""

import sys
import warnings
from pathlib import Path

from tests.fuzz.targets import TARGETS, function, template
from tests.fuzz.worst import WORST

HARMLESS = {
    "builtins.id", "code.__new__", "object.__getattr__", "object.__setattr__", "object.__delattr__", "sys._getframe",
    "gc.get_objects", "gc.get_referrers", "sys.excepthook", "array.__new__", "function.__new__",
}  # fmt: skip
WARM_UP = """\
heat_template_version: 2021-04-16
parameters:
  zone: {type: string, default: UTC, constraints: [{custom_constraint: timezone}]}
resources:
  a: {type: OS::Heat::Value, properties: {value: 1}}
  b: {type: OS::Heat::RandomString}
  c: {type: OS::Heat::TestResource}
  d: {type: OS::Heat::Nothing}
"""


def main() -> None:
    warnings.simplefilter("ignore")
    folder = Path(__file__).parent / "seeds"
    inputs = [(seed.parent.name, seed.read_bytes()) for seed in sorted(folder.glob("*/*"))]
    inputs += [("template", make(2000).encode()) for make in WORST.values()]
    # The installation loads these on first use: types, time zones, algorithms, the library of a function.
    template(WARM_UP.encode())
    function(b'{digest: [sha512, {yaql: {expression: "1", data: {}}}]}')
    for name, data in inputs:
        if name != "template":
            TARGETS[name](data)
    seen: set[str] = set()

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event not in HARMLESS:
            seen.add(f"{event} {arguments!r:.200}")

    sys.addaudithook(watch)
    for name, data in inputs:
        TARGETS[name](data)
    found = sorted(seen)
    seen.clear()
    print(*found, sep="\n", end="")
    Path(__file__).read_bytes()
    if not any(event.startswith("open ") for event in seen):
        print("the hook does not see anything")


if __name__ == "__main__":
    main()
