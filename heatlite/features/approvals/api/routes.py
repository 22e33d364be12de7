"""Routes of approvals."""

from heatlite.api.components import Components
from heatlite.api.routes import P, Routes
from heatlite.features.approvals.api.handlers import KEYS, ApprovalRoutes
from heatlite.features.approvals.api.rules import LIST
from heatlite.features.approvals.parts import operations


def add(routes: Routes, components: Components) -> None:
    """Add the routes. Those of decisions require the rule of the subject as well."""
    made = ApprovalRoutes(components.store, components.of(operations))
    routes.add(P + "/approvals", made, query={"GET": KEYS}, GET=LIST)
    one = P + "/approvals/{approval_id}"
    routes.add(one, made, "one", GET=LIST)
    routes.add(one + "/approve", made, "approve", POST=LIST)
    routes.add(one + "/reject", made, "reject", POST=LIST)
