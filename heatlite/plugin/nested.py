"""Types whose object is a stack of its own.

::

    class Pair(StackResource[PairProps], type="My::Pair"):
        \"\"\"Two of a kind.\"\"\"

        def goal(self) -> ChildStack:
            member = {"type": self.props.kind}
            return ChildStack({"heat_template_version": "2021-04-16", "resources": {"a": member, "b": member}})

The type says what the nested stack is to be; it has no handlers. The engine makes the stack, updates it, and passes
every other operation on to it, each as an action of its own that the parent's action waits for. An update of the
parent always updates the nested stack: that decides, member by member, whether there is anything to do (Heat's rule).
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import cast

from msgspec import Struct

from heatlite.core.errors import NotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin.handlers import VERBS, NoActionNeeded
from heatlite.plugin.ports import Member, Nested
from heatlite.plugin.resource import P_co, Resource


class ChildStack(Struct, frozen=True):
    """Definition that a nested stack is to get.

    The files of the parent's template are the nested one's, too.
    """

    template: Mapping[str, Json]
    parameters: Mapping[str, Json] = {}
    pause: float = 0.0
    """Seconds to wait before it begins."""


class StackResource(Resource[P_co]):
    """Base of the types that make a nested stack. `physical_id` is that stack's id."""

    makes_stack = True
    quick = True

    @classmethod
    def has(cls, handler: str) -> bool:
        """Every verb is passed on to the nested stack."""
        return handler in VERBS or super().has(handler)

    def reference(self) -> Json:
        """The nested stack's ARN, as in Heat; the resource's name while there is none."""
        facts = self.facts
        if facts.physical_id is None:
            return facts.name
        return f"arn:openstack:heat::{facts.project}:stacks/{facts.physical_name}/{facts.physical_id}"

    @abstractmethod
    def goal(self) -> ChildStack:
        """Return the final definition of the nested stack. Raises its errors.

        Changes of `data` are stored. During an update `nested` is the stack as it is. Previews call it, too; then
        properties may hold UNKNOWN.
        """

    def child(self, number: int) -> ChildStack | None:
        """Return the definition for round `number`, from 0; None: no more rounds.

        For types that go step by step. A round begins when the one before has succeeded, and `nested` is then as that
        has left it. Another process may ask for the next round: whatever it has to know is in `data`.
        """
        return self.goal() if number == 0 else None

    def resized(self, wanted: Mapping[str, Json]) -> ChildStack:
        """Return the definition that a signal asks for (`Resize.wanted`).

        Called while no other operation runs; `nested` is the stack as it is. Changes of `data` are stored. Raises
        NoActionNeeded.
        """
        raise NoActionNeeded(detail=f"signals do not scale {self.name}.")

    def recorded(self, entry: JsonMap) -> JsonMap:
        """Return this resource's entry in a record, with its members as they are here.

        In an adoption the record may come from a Heat.
        """
        return entry

    @property
    def nested(self) -> Nested | None:
        """The nested stack as it is; None while there is none."""
        return self.facts.nested()

    def no_member(self, name: str) -> NotFound:
        """Return the error for a member that does not exist; the caller raises it."""
        return NotFound(f"Member '{name}' not found in group resource '{self.name}'.")


def steps_of(name: str, path: Sequence[object]) -> tuple[str, list[object]]:
    """Split an attribute's name at its dots.

    ``outputs.ip`` with the path [0] → ``outputs`` and [ip, 0].
    """
    start, *rest = name.split(".", 2 if name.startswith("resource.") else 1)
    return start, [*rest, *path]


def member_value(member: Member, steps: Sequence[object]) -> Json:
    """Return the value at ``resource.<member>``: the reference, or an attribute."""
    if not steps:
        return member.reference()
    return member.attribute(str(steps[0]), cast(Sequence[Json], steps[1:]))
