"""Statement of the feature reports.

Its package has the entry point ``reports = …feature:feature``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from heatlite.core.config import FeatureSettings
from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.clients.finders import Finder


class ReportSettings(FeatureSettings, frozen=True):
    """Settings of reports."""

    secret_fields = frozenset({"report_token"})

    report_days: int = 30
    """Days for which a report is kept."""
    report_token: str | None = None
    """Token of the service that sends reports."""


class Reports(Feature):
    """Texts about stacks."""

    name = "reports"
    settings = ReportSettings
    rows = ("tests.example_feature.store:ReportStore",)

    def types(self) -> Mapping[str, str]:
        return {"Example::Report": "tests.example_feature.types:ReportResource"}

    def finders(self) -> "Mapping[str, Finder | None]":
        return {"example.subject": None}

    def rules(self) -> Mapping[str, frozenset[str]]:
        return {"resource_types:Example::Report": frozenset({"admin"})}


feature = Reports()


class TakenSettings(FeatureSettings, frozen=True):
    """A setting with a name of the core."""

    port: int = 1
    """A port."""


class Taken(Feature):
    """A feature with a fault."""

    name = "taken"
    settings = TakenSettings


taken = Taken()
