"""Statement of the feature query_api."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.api.access.authentication import AccessControl
    from heatlite.api.audit import AuditTrail
    from heatlite.api.components import Components
    from heatlite.api.routes import Routes


class QueryApi(Feature):
    """Routes of the query API and of access keys."""

    name = "query_api"
    modules = ("heatlite.features.query_api.routes",)

    def rules(self) -> Mapping[str, frozenset[str]]:
        from heatlite.features.query_api.rules import RULES

        return RULES

    def add_routes(
        self, routes: "Routes", components: "Components", access: "AccessControl", trail: "AuditTrail"
    ) -> None:
        from heatlite.features.query_api.routes import add

        add(routes, components, access, trail)


feature = QueryApi()
