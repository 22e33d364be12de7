"""The seam of features: what one states, which are installed, and which are on.

A feature is a folder of `heatlite/features` with an object `feature` in its `feature.py`. Other distributions add
theirs by an entry point::

    [options.entry_points]
    heatlite.features =
        reports = example_reports:feature

The settings switch features on (`features`). One that is off is not imported.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.config import BadSetting, FeatureSettings, Settings, UnknownSettings, check_stated
from heatlite.core.runtime.entry_points import announced

if TYPE_CHECKING:
    from heatlite.api.access.authentication import Credentials
    from heatlite.api.components import Components
    from heatlite.api.routes import Routes
    from heatlite.cli.client import Client, Object, Stack
    from heatlite.cli.session import PlanFacts
    from heatlite.clients.clouds import CloudProvider
    from heatlite.clients.finders import Finder
    from heatlite.clients.rest import RestTables
    from heatlite.core.actions.decisions import Decider, Decision
    from heatlite.core.clock import Clock
    from heatlite.core.errors import Conflict, Problem
    from heatlite.core.json import JsonMap
    from heatlite.core.runtime.timer import Timer
    from heatlite.core.status import ActionStatus
    from heatlite.core.wire.why import WayOut
    from heatlite.engine.admission.claims import Examiner, NewDefinition
    from heatlite.engine.admission.inputs import Supplier
    from heatlite.engine.operations.membership.member_moves import MemberMoves
    from heatlite.engine.state.guarding import Guarding
    from heatlite.engine.state.requests import StackAction
    from heatlite.engine.why.tree import ExplainedTree, Told
    from heatlite.plugin.registry import Registry
    from heatlite.store.feature_store import FeatureStore, Series
    from heatlite.store.records import ActionRecord
    from heatlite.store.store import Store
    from heatlite.template.source.loader import SourceText
    from heatlite.template.types import Installation

log = logging.getLogger(__name__)

Part = TypeVar("Part")


class Work(Protocol):
    """Work of a feature in an engine."""

    def start(self, one_command: bool) -> None:
        """Begin.

        With `one_command`, the engine runs for one command: begin only if something is due.
        """

    def wake(self) -> None:
        """Look for work that became due (from any thread)."""

    def stop(self) -> None:
        """Begin nothing more, and wait for what runs."""


GROUP = "heatlite.features"
"""Group of entry points, and the package of the features of this distribution."""


class Feature:
    """Statement of a feature. Each subclass overrides what it has.

    A statement is imported by each process that may need the feature. So a method imports the rest of it.
    """

    name: str
    """Name in the setting `features`; that of its folder."""
    settings: type[FeatureSettings] = FeatureSettings
    """Its settings. `Settings.of` returns those of an installation."""
    commands: Mapping[str, Mapping[str, Sequence[str]]] = MappingProxyType({})
    """Titles of the help → modules → their commands, as in `cli.main.SECTIONS`."""
    extends: Mapping[str, Sequence[str]] = MappingProxyType({})
    """Commands of the core (`up`, `ls`) → modules that add options to them."""
    routes: str = ""
    """Module whose `add` adds its routes."""
    actions: str = ""
    """Module whose `actions` returns its actions on stacks."""
    rows: Sequence[str] = ()
    """Stores of its rows: ``module:Class``."""
    modules: Sequence[str] = ()
    """Further modules of a server, see `shared_modules`."""
    options: Mapping[str, Sequence[str]] = MappingProxyType({})
    """Query keys of requests that begin or preview operations → their values."""
    change_options: Mapping[str, Sequence[str]] = MappingProxyType({})
    """Query keys of requests that change a stack which is there → their values."""
    create_options: Mapping[str, Sequence[str]] = MappingProxyType({})
    """Query keys of requests that create a stack → their values."""
    body: type[Struct] | None = None
    """Struct of its keys in the body of a create, an update and their previews.

    A body with one of them has no unknown key. `Request.further` has their values.
    """
    sections: Sequence[str] = ()
    """Sections of environments by which it gives values to parameters: maps with their names."""
    pages: str = ""
    """Module of its pages for a browser, imported where such are served. They are its `PAGES`."""

    def shared_modules(self) -> list[str]:
        """Return the modules that a server imports before it forks: processes share them."""
        return [one for one in (self.routes, self.actions, *self.modules) if one]

    def rules(self) -> Mapping[str, frozenset[str]]:
        """Return its rules of access, with the roles of which one suffices.

        Those of routes and actions on stacks are the `RULES` of the module `rules` beside theirs.
        """
        package = (self.routes or self.actions).rpartition(".")[0]
        found: Mapping[str, frozenset[str]] = import_module(f"{package}.rules").RULES if package else {}
        return found

    def types(self) -> Mapping[str, str]:
        """Return its resource types: names → ``module:Class``.

        A module is imported when one of its types is first used.
        """
        return {}

    def old_names(self) -> Mapping[str, str]:
        """Return old names of its types, with the present ones.

        The environment of the installation maps them.
        """
        return {}

    def finders(self) -> "Mapping[str, Finder | None]":
        """Return the finders of the custom constraints of its types.

        None: each value satisfies the constraint.
        """
        return {}

    def rest(self) -> "RestTables | None":
        """Return the services of its types that openstacksdk does not cover."""

    def stores(self) -> "Sequence[type[FeatureStore]]":
        """Return the stores of its rows."""
        places = (one.partition(":") for one in self.rows)
        return [getattr(import_module(module), name) for module, _, name in places]

    def credentials(self, store: "Store", clock: "Clock") -> "Sequence[Credentials]":
        """Return the kinds of credentials that it admits beside users."""
        return ()

    def sweeps(self, components: "Components", one_command: bool) -> Sequence[Callable[[], None]]:
        """Return the functions that the engine calls once a second.

        With `one_command`, the engine runs for one command, and nothing that this does without is imported.
        """
        return ()

    def work(self, components: "Components", timer: "Timer") -> Work | None:
        """Return its work in an engine, which does not begin yet."""

    def action_moves(
        self, components: "Components", action: "ActionRecord", after: "ActionStatus", reason: str
    ) -> None:
        """Take part in the transaction that moves an action.

        `action` is as it was before the move.
        """

    def decided(self, components: "Components", decision: "Decision") -> None:
        """Take part in the transaction of a step of a decision about work of a feature.

        Raises the error that refuses the step.
        """

    def deciders(self, components: "Components") -> "Mapping[str, Decider]":
        """Return what decides about its work, by subject."""
        return {}

    def examiner(self, components: "Components") -> "Examiner | None":
        """Return its part in the admission of operations."""

    def supplier(self, components: "Components") -> "Supplier | None":
        """Return its part in the parameters of root stacks."""

    def guarding(self, components: "Components") -> "Guarding | None":
        """Return its part in updates that may be taken back. At most one feature has one."""

    def member_moves(self, components: "Components") -> "MemberMoves | None":
        """Return its part in joins and leaves of members. At most one feature has one."""

    def why(self, components: "Components", tree: "ExplainedTree", told: "Sequence[Told]") -> "Sequence[Told]":
        """Return the facts on a stack tree with its own.

        `told` are those of the core and of features before it. It may add better ways out to them. It reads with
        a fixed number of statements.
        """
        return told

    def ways_out(self, error: "Conflict") -> "Sequence[WayOut]":
        """Return its steps out of a conflict that the core has found, the best first."""
        return ()

    def defined(self, components: "Components", definition: "NewDefinition") -> None:
        """Take part in the transaction that stores a definition of a root stack."""

    def problems(self, document: "SourceText") -> "Sequence[Problem] | None":
        """Return the problems of a document in its language. None: it is in another one."""

    def noted(self, client: "Client", stack: "Stack") -> "Mapping[str, Object]":
        """Return further columns of `heatlite history`, by the ids of actions."""
        return {}

    def planned(self, client: "Client", stack: "Stack | None", facts: "Object") -> "PlanFacts":
        """Return what it says about the plan of a create, or of an update of a stack.

        `facts` are the keys that features have added to the plan, see `examiner`. The command line asks the server for
        more.
        """
        from heatlite.cli.session import PlanFacts

        return PlanFacts()

    def policy_faults(self, settings: Settings, policy: "JsonMap") -> Sequence[str]:
        """Return the faults of a change policy that only the feature sees.

        The form of the policy is right.
        """
        return ()

    def check(self, settings: Settings) -> None:
        """Raise the error that would prevent a server from starting."""

    def check_engine(self, settings: Settings) -> None:
        """Raise the error that would prevent an engine from starting."""

    def cloud(self, settings: Settings, database: Path | None) -> "CloudProvider | None":
        """Return the cloud that the setting `cloud` names, if it is one of this feature.

        `database` is the SQLite file, None for a server. Raises BadSetting.
        """

    def stack_actions(self, components: "Components") -> "Mapping[str, StackAction]":
        """Return its actions on stacks, by the key of the body."""
        if not self.actions:
            return {}
        found: Mapping[str, StackAction] = import_module(self.actions).actions(components)
        return found

    def add_routes(self, routes: "Routes", components: "Components") -> None:
        """Add routes to the application. Raises BadSetting, MissingLibrary."""
        if self.routes:
            import_module(self.routes).add(routes, components)


class Unloadable(Feature):
    """An installed feature that cannot be loaded. It adds nothing."""

    settings = UnknownSettings

    def __init__(self, name: str) -> None:
        self.name = name


def _statements() -> Mapping[str, Callable[[], Feature]]:
    """Return the installed features: names, with what imports their statements."""
    others = {entry.name: partial(_announced, entry) for entry in announced(GROUP)}
    return {**others, **{name: partial(_own, name) for name in _own_names()}}


@cache
def _own_names() -> list[str]:
    """Return the names of the features in this package. Each start asks repeatedly."""
    return [one.parent.name for one in Path(__file__).with_name("features").glob("*/feature.py")]


def _announced(entry: EntryPoint) -> Feature:
    """Return the statement of another package. Raises BadSetting."""
    try:
        found: object = entry.load()
    except (ImportError, AttributeError, NameError, SyntaxError) as error:
        raise _unloadable(entry.name, f"{type(error).__name__}: {error}") from None
    if not isinstance(found, Feature):
        raise _unloadable(entry.name, f"{entry.value} is no object of {Feature.__module__}.Feature")
    if found.name != entry.name:
        raise _unloadable(
            entry.name, f"{entry.value} states the name {found.name!r}, and its entry point has to have the same name"
        )
    return found


def _unloadable(name: str, reason: str) -> BadSetting:
    return BadSetting(
        f"features: {name} cannot be loaded: {reason}. Leave it out of `features`, or uninstall its package."
    )


def _own(name: str) -> Feature:
    return cast(Feature, import_module(f"{GROUP}.{name}.feature").feature)


def installed() -> list[Feature]:
    """Return the statements of all installed features, by name.

    One that cannot be loaded is `Unloadable`, with a warning.
    """
    found = list[Feature]()
    for name, read in sorted(_statements().items()):
        try:
            found.append(read())
        except BadSetting as error:
            log.warning("%s", error)
            found.append(Unloadable(name))
    return found


def active(settings: Settings) -> list[Feature]:
    """Return the features that are on, by name.

    Raises BadSetting for an unknown name, one that cannot be loaded, and settings that cannot be read.
    """
    known = _statements()
    unknown = sorted({*(settings.features or ())} - known.keys())
    if unknown:
        raise BadSetting(f"features: there is no feature {unknown[0]!r}; there are: {', '.join(sorted(known))}.")
    found = [read() for name, read in sorted(known.items()) if settings.has_feature(name)]
    if not {one.name for one in found} <= {*_own_names()}:  # a test checks our own, and each start asks repeatedly
        check_stated(found)
    return found


def stating(features: Iterable[Feature], method: str) -> list[Feature]:
    """Return the features that have a method of their own."""
    return [one for one in features if getattr(type(one), method) is not getattr(Feature, method)]


def is_active(settings: Settings, name: str) -> bool:
    """Return whether a feature is installed and on. Imports nothing of it."""
    return settings.has_feature(name) and name in _statements()


def of_active(settings: Settings, part: Callable[[Feature], Iterable[Part]]) -> list[Part]:
    """Return a part of the features that are on.

    Raises BadSetting if one cannot be imported.
    """
    return [one for feature in active(settings) for one in _imported(feature, part)]


def of_inactive(settings: Settings, part: Callable[[Feature], Iterable[Part]]) -> list[Part]:
    """Return a part of the installed features that are off.

    Leaves out, with a warning, what cannot be imported.
    """
    found = list[Part]()
    for feature in installed():
        if not settings.has_feature(feature.name):
            try:
                found += _imported(feature, part)
            except BadSetting as error:
                log.warning("%s", error)
    return found


def _imported(feature: Feature, part: Callable[[Feature], Iterable[Part]]) -> Iterable[Part]:
    try:
        return part(feature)
    except ImportError as error:
        raise _unloadable(feature.name, str(error)) from error


def series_off(settings: Settings) -> "list[Series]":
    """Return the migrations of the features of this package that are off.

    Imports none of them.
    """
    from heatlite.store.feature_store import Series

    folder = Path(__file__).with_name("features")
    return [Series(name, folder / name / "store") for name in _own_names() if not settings.has_feature(name)]


def installation(settings: Settings) -> "Installation":
    """Return the environment files of the operator.

    Raises BadEnvironmentFile, BadSetting.
    """
    from heatlite.plugin.installation import read_installation

    old_names = {old: new for one in active(settings) for old, new in one.old_names().items()}
    return replace(read_installation(Path(settings.environment_dir), old_names), features_off=tuple(off(settings)))


def registry(settings: Settings, installation: "Installation | None" = None) -> "Registry":
    """Return the resource types of the core and of the features that are on.

    Makes their custom constraints and sections of environments known. Raises BadSetting.
    """
    from heatlite.core.errors import features_off
    from heatlite.plugin.registry import Registry
    from heatlite.resources import BUILTIN
    from heatlite.template.environment import add_sections
    from heatlite.template.parameters.constraints import add_cloud_constraints, hint_at_unknown

    hint_at_unknown(features_off(off(settings)))
    places = dict(BUILTIN)
    for one in active(settings):
        places.update(one.types())
        add_cloud_constraints(one.finders())
        add_sections(one.sections)
    return Registry(places, installation)


def finders(settings: Settings) -> "Mapping[str, Finder | None]":
    """Return the finders of the core and of the features that are on.

    Raises BadSetting.
    """
    from heatlite.clients.finders import FINDERS

    return {**FINDERS, **{name: finder for one in active(settings) for name, finder in one.finders().items()}}


def off(settings: Settings) -> list[str]:
    """Return the names of the installed features that are off. Imports none of them."""
    return sorted(name for name in _statements() if not settings.has_feature(name))
