"""The parameter_groups section of HOT."""

from collections.abc import Collection

from heatlite.core.errors import Problem
from heatlite.core.json import Json
from heatlite.template.source.loader import Path
from heatlite.template.source.problems import Findings, ValidationPhase, dotted


def check_groups(groups: Json, declared: Collection[str], findings: Findings) -> None:
    """Add the section's faults to `findings`. `declared` are the parameters."""

    def fault(path: Path, where: str, text: str, hint: str = "") -> None:
        findings.add(ValidationPhase.GROUPS, Problem(path, f"Parameter Groups error: {where}: {text}", hint=hint))

    if not isinstance(groups, list):
        fault(("parameter_groups",), "parameter_groups", "The parameter_groups should be a list.")
        return
    grouped: set[object] = set()
    for i, group in enumerate(groups):
        path: Path = ("parameter_groups", i)
        label = group.get("label") if isinstance(group, dict) else None
        where = f"parameter_groups.{label}" if label else dotted(path)
        names = group.get("parameters") if isinstance(group, dict) else None
        if names is None:
            fault(path, where, "The parameters must be provided for each parameter group.")
            continue
        if not isinstance(names, list):
            fault(path, where, "The parameters of parameter group should be a list.")
            continue
        for k, name in enumerate(names):
            here: Path = (*path, "parameters", k)
            if not isinstance(name, str) or name not in declared:
                text = f"The grouped parameter {name} does not reference a valid parameter."
                fault(here, where, text, findings.nearest(str(name), declared))
            elif name in grouped:
                fault(here, where, f"The {name} parameter must be assigned to one parameter group only.")
            else:
                grouped.add(name)
