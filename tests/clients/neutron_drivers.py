"""Drivers of Neutron's service plugins in place of devices and agents."""

from typing import Any

from networking_l2gw.services.l2gateway.service_drivers import L2gwDriver
from neutron_vpnaas.services.vpn.service_drivers.ipsec import IPsecVPNDriver


def _nothing(*_words: object) -> None:
    """Do nothing."""


class Deviceless(L2gwDriver):  # type: ignore[misc]
    """A driver of layer 2 gateways that has no devices."""

    service_type = "L2GW"


for _name in Deviceless.__abstractmethods__ | {"add_port_mac", "delete_port_mac"}:
    setattr(Deviceless, _name, _nothing)
Deviceless.__abstractmethods__ = frozenset()


class Agentless(IPsecVPNDriver):  # type: ignore[misc]
    """A driver of virtual private networks that reports at once, as an agent does."""

    def create_vpnservice(self, context: Any, vpnservice_dict: dict[str, Any]) -> None:
        """Report the service as active."""
        super().create_vpnservice(context, vpnservice_dict)
        self._report(context, vpnservice_dict["id"], {})

    def create_ipsec_site_connection(self, context: Any, ipsec_site_connection: dict[str, Any]) -> None:
        """Report the connection as down: there is no peer."""
        super().create_ipsec_site_connection(context, ipsec_site_connection)
        down = {"status": "DOWN", "updated_pending_status": True}
        self._report(context, ipsec_site_connection["vpnservice_id"], {ipsec_site_connection["id"]: down})

    def _report(self, context: Any, service: str, connections: dict[str, Any]) -> None:
        report = {"id": service, "status": "ACTIVE", "updated_pending_status": True}
        self.service_plugin.update_status_by_agent(context, [{**report, "ipsec_site_connections": connections}])
