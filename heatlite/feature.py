"""The seam of features: what one states, which are installed, and which are on.

A feature is a folder of `heatlite/features` with an object `feature` in its `feature.py`. Other distributions add
theirs by an entry point::

    [options.entry_points]
    heatlite.features =
        reports = example_reports:feature

The settings switch features on (`features`). One that is off is not imported.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, cast

from heatlite.core.config import BadSetting, Settings
from heatlite.core.entry_points import announced

if TYPE_CHECKING:
    from heatlite.api.access.authentication import AccessControl, Credentials
    from heatlite.api.audit import AuditTrail
    from heatlite.api.components import Components
    from heatlite.api.routes import Routes
    from heatlite.clients.clouds import CloudProvider
    from heatlite.core.clock import Clock
    from heatlite.core.errors import Problem
    from heatlite.core.status import ActionStatus
    from heatlite.core.timer import Timer
    from heatlite.store.feature_store import FeatureStore
    from heatlite.store.records import ActionRecord
    from heatlite.store.store import Store
    from heatlite.template.source.loader import Source

log = logging.getLogger(__name__)


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
    commands: Mapping[str, Mapping[str, Sequence[str]]] = MappingProxyType({})
    """Titles of the help → modules → their commands, as in `cli.main.SECTIONS`."""
    modules: Sequence[str] = ()
    """Modules that a server imports before it forks: processes share them."""

    def rules(self) -> Mapping[str, frozenset[str]]:
        """Return the rules of its routes, with the roles of which one suffices."""
        return {}

    def stores(self) -> "Sequence[type[FeatureStore]]":
        """Return the stores of its rows."""
        return ()

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

    def problems(self, document: "Source") -> "Sequence[Problem] | None":
        """Return the problems of a document in its language. None: it is in another one."""

    def check(self, settings: Settings) -> None:
        """Raise the error that would prevent a server from starting."""

    def check_engine(self, settings: Settings) -> None:
        """Raise the error that would prevent an engine from starting."""

    def cloud(self, settings: Settings, database: Path | None) -> "CloudProvider | None":
        """Return the cloud that the setting `cloud` names, if it is one of this feature.

        `database` is the SQLite file, None for a server. Raises BadSetting.
        """

    def add_routes(
        self, routes: "Routes", components: "Components", access: "AccessControl", trail: "AuditTrail"
    ) -> None:
        """Add routes to the application. Raises BadSetting, MissingLibrary."""


def _statements() -> Mapping[str, Callable[[], Feature]]:
    """Return the installed features: names, with what imports their statements."""
    others = {entry.name: partial(_announced, entry) for entry in announced(GROUP)}
    own = [one.parent.name for one in Path(__file__).with_name("features").glob("*/feature.py")]
    return {**others, **{name: partial(_own, name) for name in own}}


def _announced(entry: EntryPoint) -> Feature:
    try:
        return cast(Feature, entry.load())
    except (ImportError, AttributeError) as error:
        raise BadSetting(
            f"features: {entry.name} cannot be loaded: {error}. Leave it out of `features`, or uninstall its package."
        ) from None


def _own(name: str) -> Feature:
    return cast(Feature, import_module(f"{GROUP}.{name}.feature").feature)


def installed() -> list[Feature]:
    """Return the statements of all installed features, by name.

    Leaves out, with a warning, those that cannot be loaded.
    """
    found = []
    for _, read in sorted(_statements().items()):
        try:
            found.append(read())
        except BadSetting as error:
            log.warning("%s", error)
    return found


def active(settings: Settings) -> list[Feature]:
    """Return the features that are on, by name. Raises BadSetting for an unknown name."""
    known = _statements()
    unknown = sorted({*(settings.features or ())} - known.keys())
    if unknown:
        raise BadSetting(f"features: there is no feature {unknown[0]!r}; there are: {', '.join(sorted(known))}.")
    return [read() for name, read in sorted(known.items()) if settings.has_feature(name)]


def off(settings: Settings) -> list[str]:
    """Return the names of the installed features that are off. Imports none of them."""
    return sorted(name for name in _statements() if not settings.has_feature(name))
