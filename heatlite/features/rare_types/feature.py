"""Statement of the feature rare_types."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.clients.finders import Finder
    from heatlite.clients.rest import RestTables


class RareTypes(Feature):
    """Resource types that few templates have."""

    name = "rare_types"

    def types(self) -> Mapping[str, str]:
        from heatlite.features.rare_types.tables import TYPES

        return TYPES

    def old_names(self) -> Mapping[str, str]:
        from heatlite.features.rare_types.tables import OLD_NAMES

        return OLD_NAMES

    def rules(self) -> Mapping[str, frozenset[str]]:
        from heatlite.features.rare_types.rules import RULES

        return RULES

    def finders(self) -> "Mapping[str, Finder | None]":
        from heatlite.features.rare_types.tables import FINDERS

        return FINDERS

    def rest(self) -> "RestTables":
        from heatlite.features.rare_types.rest import TABLES

        return TABLES


feature = RareTypes()
