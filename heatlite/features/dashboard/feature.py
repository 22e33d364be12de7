"""Statement of the feature dashboard."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from heatlite.core.config import Settings
from heatlite.core.extras import MissingLibrary
from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.api.access.authentication import AccessControl
    from heatlite.api.audit import AuditTrail
    from heatlite.api.components import Components
    from heatlite.api.routes import App, Routes
    from heatlite.store.feature_store import FeatureStore


class Dashboard(Feature):
    """Pages below /ui, if the setting `ui` says so."""

    name = "dashboard"

    def stores(self) -> "Sequence[type[FeatureStore]]":
        from heatlite.features.dashboard.store.store import SessionStore

        return (SessionStore,)

    def check(self, settings: Settings) -> None:
        if settings.ui:
            _mount()

    def add_routes(
        self, routes: "Routes", components: "Components", access: "AccessControl", trail: "AuditTrail"
    ) -> None:
        if components.settings.ui:
            _mount()(routes.app, access, components)


def _mount() -> "Callable[[App, AccessControl, Components], None]":
    """Return the function that adds the pages. Raises MissingLibrary."""
    try:
        from heatlite.features.dashboard.app import mount
    except ImportError as error:
        raise MissingLibrary("The setting ui", error.name, "server") from error
    return mount


feature = Dashboard()
