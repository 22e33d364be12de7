"""Order of resources by their dependencies."""

from collections import deque
from collections.abc import Sequence

from heatlite.core.errors import CircularDependencyException, Problem
from heatlite.template.document import Definition
from heatlite.template.source.problems import Findings, ValidationPhase


def in_order(definition: Definition, findings: Findings) -> list[str]:
    """Return the names of resources, each after what it requires.

    Those in or behind a cycle come last; a cycle is added to `findings`.
    """
    resources = definition.resources
    missing = {name: len(resource.requires) for name, resource in resources.items()}
    dependents: dict[str, list[str]] = {}
    for name, resource in resources.items():
        for required in resource.requires:
            dependents.setdefault(required, []).append(name)
    ready = deque(name for name, count in missing.items() if not count)
    ordered = []
    while ready:
        name = ready.popleft()
        ordered.append(name)
        for dependent in dependents.get(name, ()):
            missing[dependent] -= 1
            if not missing[dependent]:
                ready.append(dependent)
    if len(ordered) < len(resources):
        done = set(ordered)
        rest = [name for name in resources if name not in done]
        findings.add(ValidationPhase.DEPENDENCIES, _cycle(definition, rest))
        ordered += rest
    return ordered


def _cycle(definition: Definition, rest: Sequence[str]) -> Problem:
    """Return a cycle as a problem. Everything in `rest` requires something in `rest`."""
    resources = definition.resources
    within = set(rest)
    walked: dict[str, None] = {}
    name = rest[0]
    while name not in walked:
        walked[name] = None
        name = min(resources[name].requires & within)
    names = list(walked)
    cycle = names[names.index(name) :]
    shown = {member: f'{resources[member].type} "{member}"' for member in cycle}
    edges = [
        f"{shown[member]}: {{{shown[follower]}}}"
        for member, follower in zip(cycle, [*cycle[1:], cycle[0]], strict=True)
    ]
    text = CircularDependencyException(cycle=f"{{{', '.join(edges)}}}").message
    hint = " → ".join([*cycle, cycle[0]])
    return Problem(definition.place(name), text, hint, "CircularDependencyException")
