"""Regular verbs of one kind of object: create, get, find, list, update, delete."""

import copy
from collections.abc import Callable, Mapping

from msgspec import Struct

from heatlite.clients.cloud import Ambiguous, CloudConflict, CloudError, CloudNotFound, OverQuota
from heatlite.core.clock import to_text
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.simulation import SimulatedProject, Verb


class Collection(Struct, frozen=True):
    """Kind of object of a service, with its deviations from the regular verbs.

    The hooks get the project's view, the object, and the attributes of the call. They complete the object, or reject
    the call by raising CloudError. They run before anything is stored.
    """

    kind: str
    """Service and noun, from which the verbs are named: ``network.port``."""
    defaults: Mapping[str, Json] = {}
    """Default attributes of a new object."""
    plural: str = ""
    """Name of the verb that lists; "": the noun with an s."""
    within: str = ""
    """Attribute with the id of the parent object (``pool_id``); each verb also takes that id."""
    lacks: tuple[str, ...] = ()
    """Regular verbs that the service lacks: ``update``."""
    required: tuple[str, ...] = ()
    """Required attributes of a new object."""
    owned: bool = True
    """True if objects belong to a project."""
    unique: bool = False
    """True if names are unique among the objects that a project sees."""
    key: str = "id"
    """Attribute that identifies an object: its id, or its name."""
    status: tuple[str, str] | None = None
    """Status of a new object, and its status when it is ready: ``("BUILD", "ACTIVE")``."""
    deleting: str = ""
    """Status of an object while it is deleted; "": it is deleted at once."""
    dated: bool = True
    """True if objects have ``created_at``."""
    made: Callable[[SimulatedProject, JsonMap], None] | None = None
    changed: Callable[[SimulatedProject, JsonMap, JsonMap], None] | None = None
    removed: Callable[[SimulatedProject, JsonMap], None] | None = None

    @property
    def service(self) -> str:
        return self.kind.partition(".")[0]

    @property
    def noun(self) -> str:
        return self.kind.partition(".")[2]

    def verbs(self) -> dict[str, Verb]:
        """Return the verbs by name."""
        service, noun = self.service, self.noun
        regular: dict[str, Verb] = {
            "create": self.create, "get": self.get, "find": self.find, "update": self.update, "delete": self.delete,
        }  # fmt: skip
        found = {f"{service}.{verb}_{noun}": carry_out for verb, carry_out in regular.items() if verb not in self.lacks}
        return {**found, f"{service}.{self.plural or f'{noun}s'}": self.list}

    def _part(self, whole: tuple[Json, ...]) -> JsonMap:
        return {self.within: whole[0]} if self.within and whole else {}

    def create(self, view: SimulatedProject, *whole: Json, **attributes: Json) -> Json:
        """Create an object. Raises CloudError, OverQuota."""
        verb = f"{self.service}.create_{self.noun}"
        attributes |= self._part(whole)
        for name in self.required:
            if attributes.get(name) is None:
                raise CloudError(verb, f"{name} is missing", 400)
        if self.unique:
            self._refuse_twin(view, verb, attributes.get("name"))
        self._refuse_too_many(view, verb)
        thing: JsonMap = {**self._defaults(), **attributes}
        if self.owned:
            thing.setdefault("project_id", view.project)
        if self.key == "id":
            thing.setdefault("id", view.simulation.new_id(self.kind))
        if self.dated:
            thing.setdefault("created_at", to_text(view.simulation.clock.now()))
        if self.status is not None:
            thing["status"] = self.status[0]
            view.simulation.later(thing, {"status": self.status[1]})
        if self.made is not None:
            self.made(view, thing)
        return view.put(self.kind, thing)

    def _defaults(self) -> JsonMap:
        defaults = self.defaults.items()
        return {name: copy.deepcopy(one) if isinstance(one, (dict, list)) else one for name, one in defaults}

    def get(self, view: SimulatedProject, key: Json, /, *whole: Json, **_: Json) -> Json:
        """Return an object by key. Raises CloudNotFound."""
        return self._one(view, "get", key, whole)

    def _one(self, view: SimulatedProject, what: str, key: Json, whole: tuple[Json, ...]) -> JsonMap:
        verb = f"{self.service}.{what}_{self.noun}"
        thing = view.thing(self.kind, key, verb)
        if not _matches(thing, self._part(whole)):
            raise CloudNotFound(verb, f"No {self.noun.replace('_', ' ')} found for {key}")
        return thing

    def find(
        self, view: SimulatedProject, name_or_id: Json, *whole: Json, ignore_missing: bool = True, **query: Json
    ) -> Json:
        """Return an object by name or key, or null.

        Raises CloudError if several have the name.
        """
        verb = f"{self.service}.find_{self.noun}"
        query |= self._part(whole)
        found = view.simulation.all(self.kind).get(str(name_or_id))
        if found is not None and view.sees(found):
            return found
        named = [one for one in view.things(self.kind) if one.get("name") == name_or_id and _matches(one, query)]
        if len(named) > 1:
            raise Ambiguous(verb, str(name_or_id))
        if not named and not ignore_missing:
            raise CloudNotFound(verb, f"No {self.noun} found for {name_or_id}")
        return named[0] if named else None

    def list(self, view: SimulatedProject, *whole: Json, **query: Json) -> Json:
        """List the objects that match the query."""
        query |= self._part(whole)
        return [thing for thing in view.things(self.kind) if _matches(thing, query)]

    def update(self, view: SimulatedProject, key: Json, /, *whole: Json, **attributes: Json) -> Json:
        """Update an object. Raises CloudNotFound, and the errors of `changed`."""
        thing = self._one(view, "update", key, whole)
        if self.unique and attributes.get("name", thing.get("name")) != thing.get("name"):
            self._refuse_twin(view, f"{self.service}.update_{self.noun}", attributes["name"])
        if self.changed is not None:
            self.changed(view, thing, attributes)
        thing.update(attributes)
        return view.put(self.kind, thing)

    def delete(self, view: SimulatedProject, key: Json, /, *whole: Json, **_: Json) -> Json:
        """Delete an object. Raises CloudNotFound, and the errors of `removed`."""
        return self._drop(view, self._one(view, "delete", key, whole))

    def _drop(self, view: SimulatedProject, thing: JsonMap) -> Json:
        if self.removed is not None:
            self.removed(view, thing)
        self._end(view, thing)
        return None

    def _end(self, view: SimulatedProject, thing: JsonMap) -> None:
        if self.deleting:
            thing["status"] = self.deleting
            view.simulation.later(thing, None)
            view.put(self.kind, thing)
        else:
            view.drop(self.kind, thing)

    def _refuse_twin(self, view: SimulatedProject, verb: str, name: Json) -> None:
        if any(one.get("name") == name for one in view.things(self.kind)):
            raise CloudConflict(verb, f"{self.noun} '{name}' already exists.")

    def _refuse_too_many(self, view: SimulatedProject, verb: str) -> None:
        limit = view.simulation.scenario.quotas.get(self.kind)
        if limit is None:
            return
        own = sum(one.get("project_id") == view.project for one in view.simulation.all(self.kind).values())
        if own >= limit:
            raise OverQuota(verb, f"Quota exceeded for resources: ['{self.noun}'].", 409)


def _matches(thing: JsonMap, query: Mapping[str, Json]) -> bool:
    """True if an object matches a query; null values are ignored."""
    return all(
        thing.get(key) in value if isinstance(value, list) else thing.get(key) == value
        for key, value in query.items()
        if value is not None
    )
