"""Virtual private networks: services, policies and connections between sites."""

from heatlite.plugin import ReplaceResource, Schema, prop
from heatlite.resources.neutron.base import AttendedResource, NeutronResource

KEYS = ("aes-128", "aes-192", "aes-256")
ENCRYPTIONS = (
    "3des",
    *KEYS,
    *(f"{key}-ctr" for key in KEYS),
    *(f"{key}-{mode}-{octets}" for mode in ("ccm", "gcm") for octets in (8, 12, 16) for key in KEYS),
)
AUTHENTICATIONS = ("sha1", "sha256", "sha384", "sha512", "aes-xcbc", "aes-cmac")
GROUPS = ("group2", "group5", *(f"group{number}" for number in range(14, 32)))
TENANT = {"tenant_id": (str, "The project that owns it.")}
COMMON = {**TENANT, "name": (str, "Its name."), "description": (str, "Its description.")}


class VPNServiceProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="Its description.")
    admin_state_up: bool = prop(True, update=True, doc="True if it is administratively up.")
    subnet: str = prop(find="neutron.subnet", api="subnet_id", doc="The local subnet, by name or id.")
    subnet_id: str | None = prop(
        hidden=True, find="neutron.subnet", means="subnet", api="", doc="An old name of subnet."
    )
    router: str = prop(find="neutron.router", api="router_id", doc="The router that it runs on, by name or id.")
    router_id: str | None = prop(
        hidden=True, find="neutron.router", means="router", api="", doc="An old name of router."
    )


class VPNService(AttendedResource[VPNServiceProps], type="OS::Neutron::VPNService", kind="network.vpn_service"):
    """A VPN service on a router, which connects a subnet to other sites."""

    network_extension = "vpnaas"
    alone = frozenset({"router", "subnet"})
    blocks = frozenset({"OS::Neutron::Router", "OS::Neutron::RouterInterface", "OS::Neutron::Subnet"})
    shown = {
        **COMMON,
        "admin_state_up": (str, "True if it is administratively up."),
        "router_id": (str, "The router that it runs on."),
        "status": (str, "Its status."),
        "subnet_id": (str, "The local subnet."),
    }

    def refused(self) -> None:
        """React to the refusal of a change. Raises ReplaceResource without connections.

        Agents see a service with its first connection only, which needs the service. So the creation does not wait for
        them.
        """
        if not self.service("vpn_ipsec_site_connections", vpnservice_id=self.physical_id):
            raise ReplaceResource


class Lifetime(Schema):
    units: str = prop("seconds", one_of=("seconds", "kilobytes"), doc="The unit of value.")
    value: int = prop(3600, doc="The lifetime in these units.")


class IKEPolicyProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="Its description.")
    auth_algorithm: str = prop(
        "sha1", update=True, one_of=AUTHENTICATIONS, doc="The algorithm of authentication."
    )
    encryption_algorithm: str = prop("aes-128", update=True, one_of=ENCRYPTIONS, doc="The algorithm of encryption.")
    phase1_negotiation_mode: str = prop("main", one_of=("main",), doc="The mode of the first phase of negotiation.")
    lifetime: Lifetime | None = prop(update=True, doc="The lifetime of a security association.")
    pfs: str = prop("group5", update=True, one_of=GROUPS, doc="The group for perfect forward secrecy.")
    ike_version: str = prop("v1", update=True, one_of=("v1", "v2"), doc="The version of the protocol.")


class IKEPolicy(NeutronResource[IKEPolicyProps], type="OS::Neutron::IKEPolicy", kind="network.vpn_ike_policy"):
    """A policy for the exchange of keys between sites."""

    network_extension = "vpnaas"
    plural = "vpn_ike_policies"
    shown = {
        **COMMON,
        "auth_algorithm": (str, "The algorithm of authentication."),
        "encryption_algorithm": (str, "The algorithm of encryption."),
        "ike_version": (str, "The version of the protocol."),
        "lifetime": (dict, "The lifetime of a security association."),
        "pfs": (str, "The group for perfect forward secrecy."),
        "phase1_negotiation_mode": (str, "The mode of the first phase of negotiation."),
    }


class IPsecPolicyProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="Its description.")
    transform_protocol: str = prop("esp", one_of=("esp", "ah", "ah-esp"), doc="The protocol that protects packets.")
    encapsulation_mode: str = prop("tunnel", one_of=("tunnel", "transport"), doc="The mode of encapsulation.")
    auth_algorithm: str = prop("sha1", one_of=AUTHENTICATIONS, doc="The algorithm of authentication.")
    encryption_algorithm: str = prop("aes-128", one_of=ENCRYPTIONS, doc="The algorithm of encryption.")
    lifetime: Lifetime | None = prop(doc="The lifetime of a security association.")
    pfs: str = prop("group5", one_of=GROUPS, doc="The group for perfect forward secrecy.")


class IPsecPolicy(
    NeutronResource[IPsecPolicyProps], type="OS::Neutron::IPsecPolicy", kind="network.vpn_ipsec_policy"
):
    """A policy for the protection of packets between sites."""

    network_extension = "vpnaas"
    plural = "vpn_ipsec_policies"
    shown = {
        **COMMON,
        "auth_algorithm": (str, "The algorithm of authentication."),
        "encapsulation_mode": (str, "The mode of encapsulation."),
        "encryption_algorithm": (str, "The algorithm of encryption."),
        "lifetime": (dict, "The lifetime of a security association."),
        "pfs": (str, "The group for perfect forward secrecy."),
        "transform_protocol": (str, "The protocol that protects packets."),
    }


class DeadPeerDetection(Schema):
    actions: str = prop(
        "hold",
        api="action",
        one_of=("clear", "disabled", "hold", "restart", "restart-by-peer"),
        doc="The action for a peer that does not answer.",
    )
    interval: int = prop(30, doc="Seconds between two probes.")
    timeout: int = prop(120, doc="Seconds until a silent peer counts as dead.")


class IPsecSiteConnectionProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="Its description.")
    peer_address: str = prop(doc="The address or name of the peer's gateway.")
    peer_id: str = prop(doc="The identity of the peer: an address, a name, an email address or a key id.")
    peer_cidrs: list[str] = prop(items=prop(custom="net_cidr"), doc="The peer's subnets.")
    mtu: int = prop(1500, doc="The largest packet, in bytes.")
    dpd: DeadPeerDetection | None = prop(doc="Detection of dead peers.")
    psk: str = prop(secret=True, doc="The pre-shared key.")
    initiator: str = prop(
        "bi-directional", one_of=("bi-directional", "response-only"), doc="The side that begins connections."
    )
    admin_state_up: bool = prop(True, update=True, doc="True if it is administratively up.")
    ikepolicy_id: str = prop(doc="The id of the policy for the exchange of keys.")
    ipsecpolicy_id: str = prop(doc="The id of the policy for the protection of packets.")
    vpnservice_id: str = prop(doc="The id of the local VPN service.")


class IPsecSiteConnection(
    AttendedResource[IPsecSiteConnectionProps],
    type="OS::Neutron::IPsecSiteConnection",
    kind="network.vpn_ipsec_site_connection",
):
    """A connection of a VPN service to another site."""

    network_extension = "vpnaas"
    ready = AttendedResource.WORKING  # DOWN without a peer, which may come later
    secret_attributes = frozenset({"psk"})
    blocks = frozenset({"OS::Neutron::VPNService", "OS::Neutron::IKEPolicy", "OS::Neutron::IPsecPolicy"})
    shown = {
        **COMMON,
        "admin_state_up": (str, "True if it is administratively up."),
        "auth_mode": (str, "The mode of authentication."),
        "dpd": (dict, "Detection of dead peers."),
        "ikepolicy_id": (str, "The policy for the exchange of keys."),
        "initiator": (str, "The side that begins connections."),
        "ipsecpolicy_id": (str, "The policy for the protection of packets."),
        "mtu": (str, "The largest packet, in bytes."),
        "peer_address": (str, "The address or name of the peer's gateway."),
        "peer_cidrs": (list, "The peer's subnets."),
        "peer_id": (str, "The identity of the peer."),
        "psk": (str, "The pre-shared key."),
        "route_mode": (str, "The mode of routes."),
        "status": (str, "Its status."),
        "vpnservice_id": (str, "The local VPN service."),
    }
