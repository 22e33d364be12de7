"""`heatlite test FILE`: runs templates on a simulated cloud and checks each step."""

import argparse
import difflib
import re
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, cast

import yaml
from msgspec import Struct

from heatlite.cli.arguments import CommandGroup, argument
from heatlite.cli.client import Client, Object, Stack, an_object, objects, text
from heatlite.cli.errors import CommandError, Misuse, RefusedRequest
from heatlite.cli.files import gather, load_file
from heatlite.cli.output.render import cell
from heatlite.cli.session import Host, scratch
from heatlite.core import config
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.feature import SimulatorSettings

OPERATIONS: Final = (
    "create", "update", "check", "delete", "suspend", "resume", "lock", "unlock", "mark_unhealthy", "drift",
)  # fmt: skip

def _closed(*required: str, **properties: JsonMap) -> JsonMap:
    """Return the schema of an object that has no other keys."""
    return {
        "type": "object", "additionalProperties": False, "required": [*required], "properties": {**properties},
    }  # fmt: skip


_TEXT: Final[JsonMap] = {"type": "string"}
_FLAG: Final[JsonMap] = {"type": "boolean"}
_MAP: Final[JsonMap] = {"type": "object"}
_VALUES: Final[JsonMap] = {
    "type": "object",
    "additionalProperties": {
        "if": {"type": "object", "required": ["matches"], "maxProperties": 1},
        "then": {"properties": {"matches": {"format": "regex"}}},
    },
}
"""Values, or ``{matches: PATTERN}``."""
_COUNTS: Final[JsonMap] = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}
_RESOURCE: Final = _closed(status=_TEXT, reason=_TEXT, type=_TEXT, replaced=_FLAG, there=_FLAG, attributes=_VALUES)
_EXPECTED: Final = _closed(
    status={"type": "string", "pattern": "^[A-Z]+_(COMPLETE|FAILED)$"},
    reason=_TEXT,
    refused=_TEXT,
    outputs=_VALUES,
    resources={"type": "object", "additionalProperties": _RESOURCE},
    cloud=_COUNTS,
    calls=_COUNTS,
)
_OBJECT: Final[JsonMap] = {
    **_closed("kind", kind=_TEXT, name=_TEXT, id=_TEXT, set=_MAP, remove={"const": True}),
    "allOf": [
        {"oneOf": [{"required": ["name"]}, {"required": ["id"]}]},
        {"oneOf": [{"required": ["set"]}, {"required": ["remove"]}]},
    ],
}
"""An object of the cloud, and its change from outside."""
_STEP: Final[JsonMap] = {
    **_closed(
        "do",
        name=_TEXT,
        do={"enum": list(OPERATIONS)},
        resource=_TEXT,
        object=_OBJECT,
        converge=_FLAG,
        level={"enum": ["stacks", "all"]},
        template=_TEXT,
        parameters=_MAP,
        expect=_EXPECTED,
    ),
    "allOf": [
        {"if": {"properties": {"do": {"const": do}}}, "then": {"required": [key]}}
        for do, key in (("mark_unhealthy", "resource"), ("drift", "object"))
    ],
}
_SCHEMA: Final = _closed(
    "template",
    "steps",
    template=_TEXT,
    change_policy=_TEXT,
    environments={"type": "array", "items": _TEXT},
    parameters=_MAP,
    cloud=_MAP,
    timeout={"type": "number", "exclusiveMinimum": 0},
    steps={"type": "array", "minItems": 1, "items": _STEP},
)
TIMEOUT: Final = 60.0
"""Seconds for a step, unless the file has `timeout`."""

commands = CommandGroup()


class _Loader(yaml.SafeLoader):
    """Reads dates as texts, as in templates."""


_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda _, node: node.value)


class _Late(Exception):
    """A step has taken too long."""


class Case(Struct):
    """The result of a step."""

    name: str
    faults: list[str] = []
    seconds: float = 0.0
    skipped: bool = False


class Trial(Struct):
    """A file of steps with their results."""

    path: Path
    written: JsonMap
    cases: list[Case] = []

    @property
    def failed(self) -> bool:
        """True if a step has a fault."""
        return any(case.faults for case in self.cases)


@commands.command(
    "test",
    "test templates on a simulated cloud, step by step",
    argument("files", type=Path, nargs="+", metavar="FILE", help="steps and expected results (repeatable)"),
    argument("--junit", type=Path, metavar="FILE", help="write a JUnit XML report for CI systems"),
    server=False,
    examples=("test trial.yaml --junit report.xml",),
)
def test(arguments: argparse.Namespace, host: Host) -> int:
    """Run files of steps.

    The exit code is 1 if a result differs from the expected one.
    """
    trials = []
    print("The cloud is simulated: nothing in it is real.")
    for path in arguments.files:
        trial = Trial(path, _read(path))
        _run(trial, host)
        _print_results(trial)
        trials.append(trial)
    if arguments.junit is not None:
        _write_junit(arguments.junit, trials)
    return 1 if any(trial.failed for trial in trials) else 0


def _read(path: Path) -> JsonMap:
    import jsonschema  # loading takes longer than most commands run

    try:
        written = yaml.load(path.read_text("utf-8"), _Loader)
        jsonschema.validate(written, _SCHEMA, format_checker=jsonschema.FormatChecker(["regex"]))
    except OSError as error:
        raise Misuse(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: no valid YAML: {error}") from error
    except jsonschema.ValidationError as error:
        raise CommandError(f"{path}: {error.json_path}: {error.message}") from error
    return cast(JsonMap, written)


@contextmanager
def _server(trial: Trial, host: Host) -> Iterator[tuple[Client, Path]]:
    """A heatlite of its own, with a cloud of its own, in a folder that goes with it."""
    with tempfile.TemporaryDirectory(prefix="heatlite-test-") as folder:
        scenario = Path(folder, "cloud.yaml")
        expected = [_map(step.get("expect")) for step in cast(Sequence[JsonMap], trial.written["steps"])]
        counting: JsonMap = {"count_calls": True} if any("calls" in one for one in expected) else {}
        scenario.write_text(yaml.safe_dump({**_map(trial.written.get("cloud")), **counting}), "utf-8")
        own = SimulatorSettings(simulation=str(scenario))
        with ExitStack() as opened:
            try:
                made = opened.enter_context(
                    scratch(host, Path(folder), cloud=config.SIMULATED, of_features=(own,))
                )
            except config.BadSetting as error:
                raise CommandError(str(error).replace(str(scenario), f"{trial.path}: cloud")) from error
            yield made


def _run(trial: Trial, host: Host) -> None:
    steps = cast(Sequence[JsonMap], trial.written["steps"])
    with _server(trial, host) as (client, database):
        _set_policy(trial, client)
        stage = _Stage(trial, client, database)
        for number, step in enumerate(steps, 1):
            case = Case(text(step.get("name")) or f"{number} {step['do']}", skipped=trial.failed)
            trial.cases.append(case)
            if not case.skipped:  # later faults follow from the first one
                began = time.perf_counter()
                case.faults = list(stage.play(step))
                case.seconds = time.perf_counter() - began


def _set_policy(trial: Trial, client: Client) -> None:
    """Give the project the change policy that the file names."""
    named = trial.written.get("change_policy")
    if named is None:
        return
    try:
        from heatlite.features.change_policy.effective import of_yaml
    except ImportError:
        raise CommandError(f"{trial.path}: change_policy needs the feature change_policy") from None
    document = of_yaml(load_file(trial.path.parent / text(named), "Change policy").data)
    client.request("PUT", "/change_policy", document)


class _Stage:
    """Executes the steps of a file one after the other."""

    def __init__(self, trial: Trial, client: Client, database: Path) -> None:
        self._trial = trial
        self._client = client
        self._database = database
        self._stack: Stack | None = None
        self._ids: dict[str, str] = {}
        """Names of resources → physical ids after the previous step."""

    def play(self, step: JsonMap) -> Iterator[str]:
        """Execute a step. Yields its faults."""
        expected = cast(JsonMap, step.get("expect") or {})
        before, calls = self._ids, self._calls() if "calls" in expected else {}
        try:
            self._do(step)
        except RefusedRequest as error:
            wanted = expected.get("refused")
            if wanted is None:
                yield f"refused: {error} (HTTP {error.status})"
            elif str(wanted) not in str(error):
                yield f"refused: {error}; it was to say: {wanted}"
            return
        if "refused" in expected:
            yield f"it was to be refused: {expected['refused']}"
            return
        try:
            stack = self._settled()
        except _Late as late:
            yield str(late)
            return
        yield from self._look_at_stack(stack, step, expected)
        if stack is not None:
            yield from self._look_at_resources(stack, expected, before)
            yield from self._look_at_outputs(stack, expected)
        yield from self._look_at_cloud(expected)
        if "calls" in expected:
            yield from self._look_at_calls(expected, calls)

    def _do(self, step: JsonMap) -> None:
        client, written = self._client, self._trial.written
        do = step["do"]
        if do in ("create", "update"):
            folder = self._trial.path.parent
            template = folder / text(step.get("template") or written["template"])
            environments = [folder / text(one) for one in cast(list[Json], written.get("environments") or [])]
            body = gather(template, environments).body({})
            given = {**_map(written.get("parameters")), **_map(step.get("parameters"))}
            body["parameters"] = given
            if do == "create":
                body |= {"stack_name": "test", "disable_rollback": True}
                made = an_object(client.request("POST", "/stacks", body), "stack")
                self._stack = client.find(text(made.get("id")))
            else:
                converge: JsonMap = {"converge": True} if step.get("converge") else {}
                client.request("PUT", self._existing().path, {**body, **converge})
        elif do == "delete":
            client.request("DELETE", self._existing().path)
        elif do == "mark_unhealthy":
            path = f"{self._existing().path}/resources/{step['resource']}"
            client.request("PATCH", path, {"mark_unhealthy": True, "resource_status_reason": "heatlite test"})
        elif do == "drift":
            self._change(_map(step["object"]))
        elif do == "lock":
            client.action(self._existing(), "lock", {"level": step.get("level", "all")})
        else:
            client.action(self._existing(), str(do))

    def _change(self, wanted: JsonMap) -> None:
        """Change an object of the cloud from outside."""
        from heatlite.features.simulator.cloud import file_of
        from heatlite.features.simulator.simulation import change

        kind, named = str(wanted["kind"]), str(wanted.get("id") or wanted.get("name"))
        values = None if "remove" in wanted else _map(wanted["set"])
        found = change(file_of(self._database), "test", kind, named, values)
        if found != 1:
            raise CommandError(f"{self._trial.path}: the cloud has {found} objects {named} of the kind {kind}, not 1")

    def _existing(self) -> Stack:
        if self._stack is None:
            raise CommandError(f"{self._trial.path}: the first step must create the stack")
        return self._stack

    def _settled(self) -> Stack | None:
        """Wait until no operation is in progress.

        Returns the stack, or None once it is gone. Raises _Late.
        """
        seconds = cast(float, self._trial.written.get("timeout", TIMEOUT))
        end = time.monotonic() + seconds
        pause = 0.005
        while True:
            stack = self._client.again(self._existing())
            if stack is None or not stack.in_progress:
                return stack
            if time.monotonic() > end:
                raise _Late(f"the stack is still {stack.status} after {seconds:g} s")
            time.sleep(pause)
            pause = min(pause * 1.5, 0.2)

    def _look_at_stack(self, stack: Stack | None, step: JsonMap, expected: JsonMap) -> Iterator[str]:
        do = str(step["do"])
        verb = None if do in ("mark_unhealthy", "drift") else do.upper()
        wanted = text(expected.get("status")) or (f"{verb}_COMPLETE" if verb else "")
        found = "DELETE_COMPLETE" if stack is None else stack.status
        if wanted and found != wanted:
            yield f"the stack is {found}, not {wanted}: {'' if stack is None else stack.status_reason}"
        reason = text(expected.get("reason"))
        if stack is not None and reason not in stack.status_reason:
            yield f"the stack's reason is {stack.status_reason!r}; it was to say: {reason}"

    def _look_at_resources(self, stack: Stack, expected: JsonMap, before: Mapping[str, str]) -> Iterator[str]:
        rows = {text(one.get("resource_name")): one for one in self._client.resources(stack) if not one.get("is_old")}
        self._ids = {name: text(one.get("physical_resource_id")) for name, one in rows.items()}
        for name, given in _map(expected.get("resources")).items():
            wanted = _map(given)
            found = rows.get(name)
            if (found is not None) != wanted.get("there", True):
                yield f"resource {name} is {'not ' if found is None else ''}there"
            elif found is not None:
                yield from self._look_at_resource(stack, name, found, wanted, before.get(name))

    def _look_at_resource(
        self, stack: Stack, name: str, found: Object, wanted: JsonMap, before: str | None
    ) -> Iterator[str]:
        for key, shown in (("status", "resource_status"), ("type", "resource_type")):
            if key in wanted and found.get(shown) != wanted[key]:
                yield f"resource {name}: its {key} is {found.get(shown)}, not {wanted[key]}"
        reason = text(found.get("resource_status_reason"))
        if text(wanted.get("reason")) not in reason:
            yield f"resource {name}: its reason is {reason!r}; it was to say: {wanted['reason']}"
        if "replaced" in wanted and (before != self._ids[name]) != wanted["replaced"]:
            yield f"resource {name} was {'not ' if before == self._ids[name] else ''}replaced"
        if "attributes" in wanted:
            told = an_object(self._client.request("GET", f"{stack.path}/resources/{name}"), "resource")
            attributes = _map(told.get("attributes"))
            for key, value in _map(wanted["attributes"]).items():
                yield from _differs(f"resource {name}: attribute {key}", attributes.get(key), value)

    def _look_at_outputs(self, stack: Stack, expected: JsonMap) -> Iterator[str]:
        if "outputs" not in expected:
            return
        listed = objects(self._client.show(stack.id), "outputs")
        found = {text(one.get("output_key")): one for one in listed}
        for name, wanted in _map(expected["outputs"]).items():
            if name not in found:
                yield f"there is no output {name}"
            elif found[name].get("output_error"):
                yield f"output {name}: {found[name]['output_error']}"
            else:
                yield from _differs(f"output {name}", found[name].get("output_value"), wanted)

    def _calls(self) -> dict[str, int]:
        from heatlite.features.simulator.cloud import file_of
        from heatlite.features.simulator.simulation import calls

        return calls(file_of(self._database))

    def _look_at_calls(self, expected: JsonMap, before: Mapping[str, int]) -> Iterator[str]:
        made = {verb: number - before.get(verb, 0) for verb, number in self._calls().items()}
        for pattern, wanted in _map(expected["calls"]).items():
            found = {verb: number for verb, number in made.items() if number and fnmatchcase(verb, pattern)}
            if sum(found.values()) != wanted:
                told = ", ".join(f"{number} × {verb}" for verb, number in sorted(found.items())) or "none"
                yield f"calls of {pattern}: {told}; there were to be {wanted}"

    def _look_at_cloud(self, expected: JsonMap) -> Iterator[str]:
        if "cloud" not in expected:
            return
        # Loading takes longer than most commands run, and the help has this module.
        from heatlite.features.simulator.cloud import file_of
        from heatlite.features.simulator.services.registry import OBJECTS
        from heatlite.features.simulator.simulation import count

        counts = {**dict.fromkeys(OBJECTS, 0), **count(file_of(self._database), "test")}
        for kind, wanted in _map(expected["cloud"]).items():
            if kind not in counts:
                close = difflib.get_close_matches(kind, counts, 1)
                yield f"there is no kind {kind} of objects{f'; did you mean {close[0]}?' if close else ''}"
            elif counts[kind] != wanted:
                yield f"the cloud has {counts[kind]} of {kind}, not {wanted}"


def _map(value: Json) -> JsonMap:
    return dict(value) if isinstance(value, Mapping) else {}


def _differs(what: str, found: Json, wanted: Json) -> Iterator[str]:
    """Yield a fault unless the value is equal or matches ``{matches: PATTERN}``."""
    if isinstance(wanted, Mapping) and wanted.keys() == {"matches"}:
        if re.search(str(wanted["matches"]), cell(found)) is None:
            yield f"{what} is {cell(found)!r}; it was to match {wanted['matches']}"
    elif found != wanted:
        yield f"{what} is {cell(found)!r}, not {cell(wanted)!r}"


def _print_results(trial: Trial) -> None:
    for case in trial.cases:
        result = "skipped" if case.skipped else "FAILED" if case.faults else "ok"
        print(f"{trial.path}: {case.name}: {result}")
        for fault in case.faults:
            print(f"    {fault}")


def _write_junit(path: Path, trials: Sequence[Trial]) -> None:
    """Write a JUnit XML report, which CI systems read."""
    suites = ElementTree.Element("testsuites", name="heatlite test")
    for trial in trials:
        cases = trial.cases
        suite = ElementTree.SubElement(
            suites,
            "testsuite",
            name=str(trial.path),
            tests=str(len(cases)),
            failures=str(sum(bool(case.faults) for case in cases)),
            skipped=str(sum(case.skipped for case in cases)),
            time=f"{sum(case.seconds for case in cases):.3f}",
        )
        properties = ElementTree.SubElement(suite, "properties")
        ElementTree.SubElement(properties, "property", name="cloud", value="simulated")
        for case in cases:
            one = ElementTree.SubElement(
                suite, "testcase", classname=trial.path.stem, name=case.name, time=f"{case.seconds:.3f}"
            )
            if case.skipped:
                ElementTree.SubElement(one, "skipped", message="an earlier step has failed")
            if case.faults:
                ElementTree.SubElement(one, "failure", message=case.faults[0]).text = "\n".join(case.faults)
    try:
        ElementTree.ElementTree(suites).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise Misuse(f"{path}: {error.strerror}") from error
