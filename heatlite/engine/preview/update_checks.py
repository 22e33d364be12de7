"""Checks before an update begins: changes and adoptions that are known to fail."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from heatlite.clients.cloud import NameNotFound
from heatlite.core.errors import HeatliteError, Problem, StackValidationFailed
from heatlite.core.redaction.masking import Mask
from heatlite.engine.planning.collect import PlannedValues, choose_row, evaluate
from heatlite.engine.planning.plan import Outcome
from heatlite.engine.preview.preview import stand_in
from heatlite.engine.types.observation import observe
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.store.records import ResourceRecord
from heatlite.template.document import Definition
from heatlite.template.expression import has_unknown


def may_object(definition: Definition, resources: ResourceFactory) -> list[str]:
    """Return the names of resources with a type that may reject a change.

    The type implements `Resource.objection`.
    """
    mapped_types = {one.mapped_type for one in definition.resources.values()}
    objecting = {name for name in mapped_types if resources.type_named(name).has("objection")}
    return [name for name, one in definition.resources.items() if one.mapped_type in objecting]


def check_changes(
    definition: Definition, rows: Mapping[str, Sequence[ResourceRecord]], resources: ResourceFactory
) -> None:
    """Raise StackValidationFailed for a change that cannot be made.

    `rows` are those of `may_object`, by name.

    Changes that depend on unknown values or on the real objects fail during the update instead.
    """
    values, selection = PlannedValues(resources, to_make=definition.resources), resources.selection
    for name, existing in rows.items():
        if selection is not None and selection.leaves(name):
            continue
        try:
            decision = choose_row(definition, name, existing, values).decision
        except HeatliteError:
            continue  # The step meets the same error and reports it.
        if decision.outcome is Outcome.REFUSE:
            text = Mask(definition.secrets).text(f"resources.{name}: {decision.cause}")
            raise StackValidationFailed(text, problems=(Problem(("resources", name, "properties"), text),))


def check_external(definition: Definition, resources: ResourceFactory) -> None:
    """Raise StackValidationFailed if an object to adopt does not exist.

    Its properties are optional, but some types find their objects by them. Where these depend on other resources, the
    step of the resource looks for the object.
    """
    values, selection = PlannedValues(resources, to_make=definition.resources), resources.selection
    for wanted in definition.resources.values():
        if selection is not None and selection.leaves(wanted.name):
            continue
        if wanted.external_id is None or not resources.kind(definition, wanted.name).has("live_properties"):
            continue
        properties = evaluate(definition, wanted.name, resources, values).properties
        if has_unknown(properties):
            continue
        row = replace(stand_in(wanted, resources.stack, wanted.external_id), properties=properties)
        found = observe(resources.make(row))
        if isinstance(found, StackValidationFailed):
            text = f"{found.message}, by which the object is found"
            raise _refused(wanted.name, "properties", text, *(problem.hint for problem in found.problems)) from found
        if isinstance(found, NameNotFound):
            raise _refused(wanted.name, "properties", found.message) from found
        if isinstance(found, HeatliteError):
            raise found
        if found is None:
            text = f"there is no {wanted.type} with the id {wanted.external_id}"
            raise _refused(wanted.name, "external_id", text)


def _refused(name: str, section: str, text: str, hint: str = "") -> StackValidationFailed:
    problem = Problem(("resources", name, section), f"resources.{name}: {text}", hint)
    return StackValidationFailed(problem.text, (problem,))
