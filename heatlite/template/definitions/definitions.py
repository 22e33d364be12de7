"""Resources and outputs of a template after binding."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from heatlite.template.expression import UNKNOWN, Expression, fields, sift


class ResourceDefinition(Struct, frozen=True):
    """One resource that shall be there.

    Values with functions in them are `Expression`s, to be resolved.
    """

    name: str
    type: str
    """As the template writes it."""
    mapped_type: str
    """Type after mapping by the registries, or the file name of a template."""
    properties: Mapping[str, object] | Expression
    metadata: Mapping[str, object] | Expression
    depends_on: tuple[str, ...]
    """Enabled resources only."""
    deletion_policy: str
    update_policy: Mapping[str, object] | Expression
    description: str
    external_id: str | None
    """The existing object that is to be adopted."""
    requires: frozenset[str]
    """Enabled resources of depends_on and of references in properties and metadata."""
    refill: Callable[[], None]
    """Restore the work limit before the resource is evaluated, as `Definition.refill`."""

    def named_types(self) -> list[str]:
        """Return its type, and the types of group members that its properties name."""
        given = fields(self.properties) or {}
        member, chain = fields(given.get("resource_def")) or {}, given.get("resources")
        named = [self.type, member.get("type"), *(chain if isinstance(chain, list) else [])]
        return [name for name in named if isinstance(name, str)]


class OutputDefinition(Struct, frozen=True):
    """One output, with its description for people.

    Where `condition` is false, its value is null.
    """

    name: str
    value: object
    description: str
    condition: bool


class _References:
    """Scope with a text of its own for each reference. Attributes are unknown.

    Functions take it as they take an id. Its first and last character are of those that Unicode keeps for internal
    use, so that no text of a template equals it.
    """

    def reference(self, name: str) -> object:
        return f"\ufdd0{name}\ufdd1"

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:  # noqa: ARG002
        return UNKNOWN


def referring(properties: Mapping[str, object] | Expression) -> Mapping[str, object]:
    """Return properties for `ResourceTypeView.comes_after`, ignoring faults."""
    found = sift(properties, _References(), [])
    return found if isinstance(found, Mapping) else {}
