"""Drivers of Neutron's service plugins in place of devices and agents."""

import threading
from typing import Any

from networking_l2gw.services.l2gateway.service_drivers import L2gwDriver
from neutron_lib.constants import ACTIVE, INACTIVE
from neutron_lib.context import get_admin_context
from neutron_taas.services.taas.service_drivers.taas_rpc import TaasRpcDriver
from neutron_vpnaas.services.vpn.service_drivers.ipsec import IPsecVPNDriver

SOON = 1.0
"""Seconds until an agent reports."""


def _nothing(*_words: object) -> None:
    """Do nothing."""


class Deviceless(L2gwDriver):  # type: ignore[misc]
    """A driver of layer 2 gateways that has no devices."""

    service_type = "L2GW"


for _name in Deviceless.__abstractmethods__ | {"add_port_mac", "delete_port_mac"}:
    setattr(Deviceless, _name, _nothing)
Deviceless.__abstractmethods__ = frozenset()


class Agentless(IPsecVPNDriver):  # type: ignore[misc]
    """A driver of virtual private networks that reports soon, as an agent does."""

    def create_vpnservice(self, context: Any, vpnservice_dict: dict[str, Any]) -> None:
        """Report the service as active."""
        super().create_vpnservice(context, vpnservice_dict)
        self._report(context, vpnservice_dict["id"], {})

    def create_ipsec_site_connection(self, context: Any, ipsec_site_connection: dict[str, Any]) -> None:
        """Report the connection as down after a while: there is no peer."""
        super().create_ipsec_site_connection(context, ipsec_site_connection)
        down = {"status": "DOWN", "updated_pending_status": True}
        service, connections = ipsec_site_connection["vpnservice_id"], {ipsec_site_connection["id"]: down}
        threading.Timer(SOON, self._report, (get_admin_context(), service, connections)).start()

    def _report(self, context: Any, service: str, connections: dict[str, Any]) -> None:
        report = {"id": service, "status": "ACTIVE", "updated_pending_status": True}
        self.service_plugin.update_status_by_agent(context, [{**report, "ipsec_site_connections": connections}])


class Untapped(TaasRpcDriver):  # type: ignore[misc]
    """A driver of taps that reports at once, as an agent does."""

    def create_tap_service_postcommit(self, context: Any) -> None:
        """Report the tap service as active."""
        super().create_tap_service_postcommit(context)
        self.endpoints[0].set_tap_service_status(context._plugin_context, context.tap_service, ACTIVE)

    def delete_tap_service_precommit(self, context: Any) -> None:
        """Report the tap service as gone."""
        super().delete_tap_service_precommit(context)
        self.endpoints[0].set_tap_service_status(context._plugin_context, context.tap_service, INACTIVE)

    def create_tap_flow_postcommit(self, context: Any) -> None:
        """Report the tap flow as active."""
        super().create_tap_flow_postcommit(context)
        self.endpoints[0].set_tap_flow_status(context._plugin_context, context.tap_flow, ACTIVE)

    def delete_tap_flow_precommit(self, context: Any) -> None:
        """Report the tap flow as gone."""
        super().delete_tap_flow_precommit(context)
        self.endpoints[0].set_tap_flow_status(context._plugin_context, context.tap_flow, INACTIVE)
