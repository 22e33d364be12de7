"""What types know to be in vain before an update is begun."""

from collections.abc import Mapping, Sequence

from heatlite.core.errors import HeatliteError, Problem, StackValidationFailed
from heatlite.core.masking import Mask
from heatlite.engine.planning.collect import PlannedValues, choose_row
from heatlite.engine.planning.plan import Outcome
from heatlite.engine.state.values import Resources
from heatlite.store.records import ResourceRecord
from heatlite.template.document import Definition


def check_changes(definition: Definition, rows: Mapping[str, Sequence[ResourceRecord]], resources: Resources) -> None:
    """Raise StackValidationFailed where a change cannot be made; `rows` are those of the resources whose types may
    have an objection, by name.

    What follows from values that only the update will bring, or from what the objects are, fails when its turn comes.
    """
    values = PlannedValues(resources, to_make=definition.resources)
    for name, existing in rows.items():
        try:
            decision = choose_row(definition, name, existing, values).decision
        except HeatliteError:
            continue  # the step meets it again, and tells of it
        if decision.outcome is Outcome.REFUSE:
            text = Mask(definition.secrets).text(f"resources.{name}: {decision.cause}")
            raise StackValidationFailed(text, problems=(Problem(("resources", name, "properties"), text),))
