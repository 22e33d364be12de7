"""Kinds of actions.

The runner calls the step of a kind repeatedly until the action has ended. A step keeps its state in the action's
progress and folder only, so that another process of the agent can continue.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from heatlite.agent import form
from heatlite.agent.actions import Action
from heatlite.agent.commands import Command
from heatlite.agent.form import CANCELLED, DONE, FAILED, RUNNING, Fault, Json, JsonMap
from heatlite.agent.settings import AgentSettings, BadSettings, External, Limits, Services
from heatlite.agent.supervise import ASKED, TIME_LIMIT, Result, clip

_MAX_NAMES = 50
MAX_STEPS = 1_000_000
_BETWEEN_CHECKS = 2.0
"""Seconds between two checks of an external kind."""


@dataclass(frozen=True, slots=True)
class Step:
    """Result of a step: RUNNING or a final state, with progress and outputs."""

    state: str
    progress: JsonMap = field(default_factory=dict)
    outputs: JsonMap = field(default_factory=dict)
    error: str = ""
    pause: float | None = None
    """Seconds until the next step, if the kind knows."""


class Kind(Protocol):
    """A kind of action."""

    description: str

    def check(self, args: JsonMap) -> None:
        """Validate the args. Raises Fault InvalidRequest."""

    def step(self, action: Action, folder: Path) -> Step:
        """Continue the action for a short time; end it once `cancel_asked` is set.

        `folder` is the action's own and may not exist yet. Raises OSError if the machine fails.
        """


def kinds(settings: AgentSettings) -> dict[str, Kind]:
    """Return all kinds that the settings allow, sorted by name. Raises BadSettings."""
    found: dict[str, Kind] = {
        "test/success": _Instant("Ends well, at once.", DONE, ""),
        "test/fail": _Instant("Fails, at once.", FAILED, "test/fail fails"),
        "test/loop": _Loop(),
    }
    if settings.script:
        found["script"] = _Script(settings.limits)
    if settings.services is not None:
        for verb in ("start", "stop", "restart"):
            found[f"service.{verb}"] = _Service(verb, settings.services, settings.limits)
    for external in settings.external:
        if external.kind in found:
            raise BadSettings(f"kinds: {external.kind!r} is a kind of the agent's own")
        found[external.kind] = _External(external, settings.limits)
    return dict(sorted(found.items()))


class _Instant:
    def __init__(self, description: str, state: str, error: str) -> None:
        self.description = description
        self._end = Step(state, error=error)

    def check(self, args: JsonMap) -> None:
        _only(args)

    def step(self, action: Action, folder: Path) -> Step:  # noqa: ARG002
        return self._end


class _Loop:
    description = "Counts to args.target, one a step."

    def check(self, args: JsonMap) -> None:
        _only(args, "target")
        target = args.get("target")
        if isinstance(target, bool) or not isinstance(target, int) or not 1 <= target <= MAX_STEPS:
            raise _invalid(f"args.target must be a whole number from 1 to {MAX_STEPS}")

    def step(self, action: Action, folder: Path) -> Step:  # noqa: ARG002
        if action.cancel_asked:
            return Step(CANCELLED, action.progress, error="cancelled")
        count, target = action.progress.get("counter", 0), action.args["target"]
        assert isinstance(count, int) and isinstance(target, int)
        return Step(DONE if count + 1 >= target else RUNNING, {"counter": count + 1, "target": target})


class _Commanded:
    """Kind of action that consists of one command."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def _start(self, action: Action, command: Command) -> bool:
        raise NotImplementedError

    def step(self, action: Action, folder: Path) -> Step:
        command = Command(folder / "command")
        running = Step(RUNNING, action.progress)
        if not command.has_begun() and not action.progress:
            if action.cancel_asked:
                return Step(CANCELLED, error="cancelled")
            return Step(RUNNING, _BEGUN if self._start(action, command) else {})
        interrupted = _INTERRUPTED if command.has_begun() else _REMOVED
        alive = command.is_alive()  # checked first: a supervisor writes the result before it exits
        result = command.result()
        if result is not None:
            return _judge(result, self._limits, action.cancel_asked, interrupted)
        if alive:
            if action.cancel_asked:
                command.end()
            return running
        if command.end():
            return running
        return Step(CANCELLED, error="cancelled") if action.cancel_asked else Step(FAILED, error=interrupted)


class _Script(_Commanded):
    description = "Runs args.config with args.inputs in its environment; gives back args.outputs."

    def check(self, args: JsonMap) -> None:
        _only(args, "config", "inputs", "outputs")
        config = args.get("config")
        if not isinstance(config, str) or not config.strip() or "\0" in config:
            raise _invalid("args.config must be the text of a script")
        _check_inputs(args.get("inputs", {}))
        _check_outputs(args.get("outputs", []))

    def _start(self, action: Action, command: Command) -> bool:
        config, inputs, outputs = action.args["config"], action.args.get("inputs"), action.args.get("outputs")
        assert isinstance(config, str)
        script = str(command.write("script", config, mode=0o700))
        return command.start(
            [script] if config.startswith("#!") else ["/bin/sh", script],
            self._limits,
            {
                **({name: _as_variable(value) for name, value in inputs.items()} if isinstance(inputs, dict) else {}),
                "heat_outputs_path": command.output_path(),
            },
            outputs=[str(name) for name in outputs] if isinstance(outputs, list) else [],
        )


class _Service(_Commanded):
    def __init__(self, verb: str, services: Services, limits: Limits) -> None:
        super().__init__(limits)
        self._verb = verb
        self._services = services
        self.description = f"{verb.capitalize()}s args.service, one of: {', '.join(services.allowed)}."

    def check(self, args: JsonMap) -> None:
        _only(args, "service")
        if args.get("service") not in self._services.allowed:
            raise _invalid(f"args.service must be one of: {', '.join(self._services.allowed)}")

    def _start(self, action: Action, command: Command) -> bool:
        names = {"{verb}": self._verb, "{service}": str(action.args["service"])}
        return command.start([_filled(word, names) for word in self._services.command], self._limits)


class _External:
    """Operator-defined kind: a `start` command, then repeated `check` commands.

    The supervisor of `start` stays alive, so that a cancel can end the processes that it has started. The machine may
    go down in between, which may be the purpose of the action: `check` then tells the outcome.
    """

    def __init__(self, external: External, limits: Limits) -> None:
        self._external = external
        self._limits = limits
        self.description = external.description

    def check(self, args: JsonMap) -> None:
        """Accept all args; the commands validate them."""

    def step(self, action: Action, folder: Path) -> Step:
        start, check = Command(folder / "start"), Command(folder / "check")
        if action.cancel_asked:
            alive = [command for command in (start, check) if command.end()]
            return Step(RUNNING if alive else CANCELLED, action.progress, error="" if alive else "cancelled")
        if not start.has_begun() and action.progress:
            alive = [command for command in (start, check) if command.end()]
            return Step(RUNNING if alive else FAILED, action.progress, error="" if alive else _REMOVED)
        if not start.has_begun():
            begun = start.start(self._external.start, self._limits, stdin=form.dump(action.record()), stays=True)
            return Step(RUNNING, {"phase": "start"} if begun else {})
        alive_start = start.is_alive()
        result = start.result()
        if result is None and alive_start:
            return Step(RUNNING, {"phase": "start"})
        if result is not None and (result["status"] != 0 or result["ended"] == TIME_LIMIT):
            return replace(_judge(result, self._limits, cancelled=False), progress=action.progress)
        return self._check(action, start, check)

    def _check(self, action: Action, start: Command, check: Command) -> Step:
        running = Step(RUNNING, {"phase": "check"})
        if not check.has_begun():
            check.start(self._external.check, self._limits, stdin=form.dump(action.record()))
            return running
        alive = check.is_alive()
        result = check.result()
        if result is None and (alive or check.end()):
            return running
        if result is None:
            check.forget()
            return running  # the machine went down during the check: check again
        step = self._judge_check(action, result, start)
        if step.state != RUNNING or step.pause is not None:
            check.forget()
        return step

    def _judge_check(self, action: Action, result: Result, start: Command) -> Step:
        """Return the step that follows from a check.

        One that is RUNNING without a pause judges the same check again.
        """
        running = Step(RUNNING, {"phase": "check"})
        if result["status"] != 0:
            judged = _judge(result, self._limits, cancelled=False)
            return Step(FAILED, {"phase": "check"}, judged.outputs, f"check: {judged.error}")
        status, error, outputs = _answer(result["stdout"])
        match status:
            case "running":
                if _age(action) <= self._limits.seconds:
                    return replace(running, pause=_BETWEEN_CHECKS)
                if start.end():
                    return running
                return Step(FAILED, {"phase": "check"}, outputs, _too_long(self._limits))
            case "finished":
                return Step(DONE, {"phase": "check"}, outputs)
            case _:
                return Step(FAILED, {"phase": "check"}, outputs, error or "check says that it has failed")


_INTERRUPTED = "interrupted: the machine, or what watched over the command, went down. How far it came is not known."


_REMOVED = "interrupted: its folder, which the agent needs, was removed. How far it came is not known."
_BEGUN: JsonMap = {"phase": "run"}
"""Progress of a command that has begun, also if its folder is removed."""


def _answer(text: str) -> tuple[str, str, JsonMap]:
    """Parse the output of a `check` command. Returns status, error and outputs."""
    wrong = 'check printed no JSON object with a status "running", "finished" or "failed"'
    try:
        answer = form.parse(text)
    except ValueError as error:
        return "failed", f"{wrong}: {error}", {}
    status = answer.get("status") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or status not in ("running", "finished", "failed"):
        return "failed", wrong, {}
    outputs = answer.get("outputs") or {}
    if not isinstance(outputs, dict):
        return "failed", "check: outputs must be an object", {}
    return str(status), str(answer.get("error") or ""), outputs


def _judge(result: Result, limits: Limits, cancelled: bool, interrupted: str = _INTERRUPTED) -> Step:
    """Return the final step of an action from the result of its command."""
    texts = {**result["outputs"], form.STDOUT: result["stdout"], form.STDERR: result["stderr"]}
    outputs: JsonMap = {**_fitted(texts), form.STATUS_CODE: result["status"]}
    if result["ended"] == TIME_LIMIT:
        return Step(FAILED, outputs=outputs, error=_too_long(limits))
    if result["ended"] == ASKED:
        state, error = (CANCELLED, "cancelled") if cancelled else (FAILED, interrupted)
        return Step(state, outputs=outputs, error=error)
    if result["status"] is None:
        return Step(FAILED, outputs=outputs, error=result["error"])
    if result["status"]:
        return Step(FAILED, outputs=outputs, error=f"exit status {result['status']}")
    return Step(DONE, outputs=outputs)


def _fitted(texts: Mapping[str, str]) -> dict[str, str]:
    """Shorten the outputs so that all together stay within the limit."""
    fitted, limit = dict(texts), form.MAX_OUTPUT
    while len(form.dump(fitted).encode()) > form.MAX_OUTPUTS:
        limit //= 2
        fitted = {name: clip(text, limit) for name, text in texts.items()}
    return fitted


def _age(action: Action) -> float:
    """Return the seconds since the start, by the wall clock, which includes reboots."""
    assert action.started_at is not None
    return (datetime.now(UTC) - form.as_time(action.started_at)).total_seconds()


def _too_long(limits: Limits) -> str:
    return f"took longer than {limits.seconds:g} s (limits.seconds), and was ended"


def _check_inputs(inputs: Json) -> None:
    if not isinstance(inputs, dict):
        raise _invalid("args.inputs must be an object: names and values")
    for name, value in inputs.items():
        if not name or "=" in name or "\0" in name or "\0" in _as_variable(value):
            raise _invalid("args.inputs: no environment variable can have such a name, or hold such a value")


def _check_outputs(outputs: Json) -> None:
    if not isinstance(outputs, list) or len(outputs) > _MAX_NAMES:
        raise _invalid(f"args.outputs must be a list of at most {_MAX_NAMES} names")
    for output in outputs:
        if not isinstance(output, str) or not output or len(output) > 200 or "/" in output or "\0" in output:
            raise _invalid("args.outputs: each must be the name of a file, of at most 200 characters")


def _only(args: Mapping[str, Json], *names: str) -> None:
    for name in args:
        if name not in names:
            raise _invalid(f"args.{name} is none of: {', '.join(names)}" if names else "args must be empty: {}")


def _invalid(message: str) -> Fault:
    return Fault("InvalidRequest", message)


def _as_variable(value: Json) -> str:
    """Return an input as the value of an environment variable."""
    if value is None:
        return ""
    return value if isinstance(value, str) else form.dump(value)


def _filled(word: str, names: Mapping[str, str]) -> str:
    for mark, name in names.items():
        word = word.replace(mark, name)
    return word
