"""What an operation would do: the same plan and the same decisions, with what is not known yet left open."""

from collections.abc import Sequence
from dataclasses import replace

from heatlite.core.errors import HeatliteError
from heatlite.core.json import Json, JsonMap
from heatlite.core.status import Status, Verb
from heatlite.engine.plan import Outcome
from heatlite.engine.planner import plan_converge
from heatlite.engine.requests import Changes, PreviewResource
from heatlite.engine.scope import PlannedValues, Resources, current_rows, without_unknown
from heatlite.store.records import ResourceRecord
from heatlite.template.document import Definition, ResourceDefinition
from heatlite.template.expression import resolve

STAYS = frozenset({Outcome.KEEP, Outcome.UPDATE, Outcome.REFUSE, Outcome.RESTRICT})
"""The object is the same one afterwards."""


class Foresight:
    """The plan from `rows` to `definition`, as a preview shows it."""

    def __init__(self, definition: Definition, rows: Sequence[ResourceRecord], resources: Resources) -> None:
        self._definition = definition
        self._rows = rows
        self._resources = resources
        self._plan = plan_converge(definition, rows, resources)
        rows_seen = dict(self._plan.kept)
        self._values = PlannedValues(resources, rows_seen)
        for step in self._plan.steps.values():
            if step.row is not None and step.outcome in STAYS:
                rows_seen[step.name] = step.row
                self._values.to_change.add(step.name)
            else:
                self._values.to_make.add(step.name)
        self._required_by: dict[str, list[str]] = {}
        for wanted in definition.resources.values():
            for name in wanted.requires:
                self._required_by.setdefault(name, []).append(wanted.name)

    def changes(self) -> Changes:
        """Heat's five lists."""
        found: dict[Outcome, list[PreviewResource]] = {outcome: [] for outcome in Outcome}
        for name, wanted in self._definition.resources.items():
            step = self._plan.steps.get(name)
            if step is None:
                found[Outcome.KEEP].append(self._resource(wanted, self._plan.kept[name]))
            else:
                row = step.row
                if row is not None and step.outcome is Outcome.RESTRICT:
                    row = replace(row, status_reason=step.cause)
                found[step.outcome].append(self._resource(wanted, row))
        gone = [row for row in current_rows(self._rows) if row.name not in self._definition.resources]
        return Changes(
            unchanged=tuple(found[Outcome.KEEP]),
            updated=tuple(found[Outcome.UPDATE] + found[Outcome.REFUSE] + found[Outcome.RESTRICT]),
            replaced=tuple(found[Outcome.REPLACE]),
            added=tuple(found[Outcome.CREATE] + found[Outcome.CONTINUE]),
            deleted=tuple(PreviewResource(row, (), {}) for row in gone),
        )

    def _resource(self, wanted: ResourceDefinition, row: ResourceRecord | None) -> PreviewResource:
        if row is None:
            row = ResourceRecord(
                id="",
                stack_id=self._resources.stack.id,
                name=wanted.name,
                type=wanted.type,
                mapped_type=wanted.mapped_type,
                verb=Verb.INIT,
                status=Status.COMPLETE,
                status_reason="",
                created_at=self._resources.stack.created_at,
                description=wanted.description,
            )
        row = replace(row, properties=self._foreseen(wanted.properties), metadata=self._foreseen(wanted.metadata))
        kind = self._resources.kind(self._definition, wanted.name)
        attributes: dict[str, Json] = dict.fromkeys(kind.attribute_names - {"show"})
        return PreviewResource(row, tuple(self._required_by.get(wanted.name, ())), attributes)

    def _foreseen(self, section: object) -> JsonMap:
        try:
            value = without_unknown(resolve(section, self._values))
        except HeatliteError:
            # What a function makes of values that are still open is told when they are known.
            return {}
        return value if isinstance(value, dict) else {}
