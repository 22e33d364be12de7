"""Routes of quotas."""

from heatlite.api.components import Components
from heatlite.api.routes import P, Routes
from heatlite.features.quota.api.handlers import ProjectQuota
from heatlite.features.quota.parts import Quotas


def add(routes: Routes, components: Components) -> None:
    """Add the routes."""
    routes.add(P + "/quota", ProjectQuota(components.of(Quotas).examiner), GET="quota:show")
