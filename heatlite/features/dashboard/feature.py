"""Statement of the feature dashboard."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from heatlite.core.config import FeatureSettings, Settings
from heatlite.core.runtime.extras import MissingLibrary
from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.api.access.authentication import AccessControl
    from heatlite.api.components import Components
    from heatlite.api.routes import App, Routes


class DashboardSettings(FeatureSettings, frozen=True):
    """Settings of the dashboard."""

    ui: bool = False
    """Serve the dashboard at /ui (docs/dashboard.md).
    Needs the extra `server`."""
    ui_session_hours: float = 8.0
    """Hours after which the dashboard asks for the credentials again."""


class Dashboard(Feature):
    """Pages below /ui, if the setting `ui` says so."""

    name = "dashboard"
    settings = DashboardSettings
    rows = ("heatlite.features.dashboard.store.store:SessionStore",)

    def check(self, settings: Settings) -> None:
        if settings.of(DashboardSettings).ui:
            _mount()
            from heatlite.features.dashboard.app import pages_of

            pages_of(settings)  # processes of the API share the modules

    def add_routes(self, routes: "Routes", components: "Components") -> None:
        if components.settings.of(DashboardSettings).ui:
            _mount()(routes.app, components.access(), components)


def _mount() -> "Callable[[App, AccessControl, Components], None]":
    """Return the function that adds the pages. Raises MissingLibrary."""
    try:
        from heatlite.features.dashboard.app import mount
    except ImportError as error:
        raise MissingLibrary("The setting ui", error.name, "server") from error
    return mount


feature = Dashboard()
