"""A driver of Magnum in place of machines and Kubernetes.

Magnum itself has no drivers any more.
"""

from typing import Any

from magnum.drivers.common.driver import Driver

API = "https://10.0.0.9:6443"
NODE = "10.0.0.8"


def _nothing(*_words: object, **_more: object) -> None:
    """Do nothing."""


class Machineless(Driver):  # type: ignore[misc]
    """A driver whose clusters are complete at the conductor's next look at them."""

    provides = [{"server_type": "vm", "os": "none", "coe": "kubernetes"}]

    def update_cluster_status(self, context: Any, cluster: Any, use_admin_ctx: bool = False) -> None:
        """Complete what is in progress."""
        cluster.status = cluster.status.replace("IN_PROGRESS", "COMPLETE")
        cluster.api_address = API
        for group in cluster.nodegroups:
            group.status, group.node_addresses = cluster.status, [] if group.role == "master" else [NODE]
            group.save()
        cluster.save()


for _name in Driver.__abstractmethods__ - {"provides"}:
    setattr(Machineless, _name, _nothing)
Machineless.__abstractmethods__ = frozenset()
