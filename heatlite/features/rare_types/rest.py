"""Services that openstacksdk does not cover."""

from typing import Final

from heatlite.clients.rest import LOAD_BALANCER, MESSAGING, TEXT, Call, Kind, RestTables, Service

TABLES: Final = RestTables(
    services=(
        Service("alarming", "/v2"),
        Service("baremetal", "/v1", {"X-OpenStack-Ironic-API-Version": "1.58"}),
        Service("container", "/v1", {"OpenStack-API-Version": "container 1.12"}),
        Service("container_infra", "/v1"),
        Service("database", "/v1.0"),
        Service("identity", "/v3"),
        LOAD_BALANCER,
        MESSAGING,
        Service("network", "/v2.0"),
        Service("reservation", "/v1"),
        Service("shared_file_system", "/v2", {"X-OpenStack-Manila-API-Version": "2.13"}),
        Service("workflow", "/v2"),
    ),
    kinds={
        "alarming.alarm": Kind("/alarms", key="alarm_id"),
        "baremetal.node": Kind("/nodes", many="nodes", key="uuid"),
        "baremetal.port": Kind("/ports", many="ports", key="uuid", change="JSON-PATCH"),
        "baremetal.port_group": Kind("/portgroups", many="portgroups", key="uuid"),
        "container.container": Kind(
            "/containers", many="containers", key="uuid", creation="?run=true", change="PATCH"
        ),
        "container_infra.cluster": Kind("/clusters", many="clusters", key="uuid", change="JSON-PATCH"),
        "container_infra.cluster_template": Kind(
            "/clustertemplates", many="clustertemplates", key="uuid", change="JSON-PATCH"
        ),
        "database.cluster": Kind("/clusters", "cluster", "clusters"),
        "database.flavor": Kind("/flavors", "flavor", "flavors", key="str_id"),  # `id` is null unless it is a number
        "database.instance": Kind("/instances", "instance", "instances", change="PATCH"),
        "identity.ec2_credential": Kind(
            "/users/{}/credentials/OS-EC2", "credential", "credentials", key="access", bare=True
        ),
        "messaging.subscription": Kind(
            "/queues/{}/subscriptions", many="subscriptions", key="subscription_id", change="PATCH"
        ),
        "network.l2_gateway": Kind("/l2-gateways", "l2_gateway", "l2_gateways"),
        "network.l2_gateway_connection": Kind(
            "/l2-gateway-connections", "l2_gateway_connection", "l2_gateway_connections"
        ),
        "network.metering_label_rule": Kind(  # the SDK warns of remote_ip_prefix
            "/metering/metering-label-rules", "metering_label_rule", "metering_label_rules"
        ),
        "reservation.host": Kind("/os-hosts", "host", "hosts", bare=True),
        "reservation.lease": Kind("/leases", "lease", "leases", bare=True),
        "shared_file_system.security_service": Kind(
            "/security-services", "security_service", "security_services", "/detail"
        ),
        "shared_file_system.share": Kind("/shares", "share", "shares", "/detail"),
        "shared_file_system.share_network": Kind("/share-networks", "share_network", "share_networks", "/detail"),
        "shared_file_system.share_snapshot": Kind("/snapshots", "snapshot", "snapshots"),
        "shared_file_system.share_type": Kind("/types", "share_type", "share_types"),
        "workflow.cron_trigger": Kind("/cron_triggers", many="cron_triggers", key="name"),
        "workflow.execution": Kind("/executions", many="executions"),
        "workflow.workflow": Kind("/workflows", many="workflows"),
    },
    calls={
        "container.attach_container_network": Call("POST", "/containers/{}/network_attach", in_query=True),
        "container.detach_container_network": Call("POST", "/containers/{}/network_detach", in_query=True),
        "database.act_on_instance": Call("POST", "/instances/{}/action"),
        "database.change_user": Call("PUT", "/instances/{}/users/{}"),
        "database.create_databases": Call("POST", "/instances/{}/databases"),
        "database.create_users": Call("POST", "/instances/{}/users"),
        "database.delete_database": Call("DELETE", "/instances/{}/databases/{}"),
        "database.delete_user": Call("DELETE", "/instances/{}/users/{}"),
        "database.grant_databases": Call("PUT", "/instances/{}/users/{}/databases"),
        "database.revoke_database": Call("DELETE", "/instances/{}/users/{}/databases/{}"),
        "load_balancer.set_members": Call("PUT", "/lbaas/pools/{}/members"),
        "messaging.patch_queue": Call(
            "PATCH", "/queues/{}", "changes", "application/openstack-messaging-v2.0-json-patch"
        ),
        "messaging.share_queue": Call("POST", "/queues/{}/share"),
        "shared_file_system.act_on_share": Call("POST", "/shares/{}/action"),
        "shared_file_system.act_on_share_network": Call("POST", "/share-networks/{}/action"),
        "shared_file_system.delete_share_type_spec": Call("DELETE", "/types/{}/extra_specs/{}"),
        "shared_file_system.export_locations": Call("GET", "/shares/{}/export_locations"),
        "shared_file_system.security_services_of": Call("GET", "/security-services?share_network_id={}"),
        "shared_file_system.set_share_metadata": Call("PUT", "/shares/{}/metadata"),
        "shared_file_system.set_share_type_specs": Call("POST", "/types/{}/extra_specs"),
        "workflow.define_workflow": Call("POST", "/workflows", "definition", TEXT),
        "workflow.redefine_workflow": Call("PUT", "/workflows", "definition", TEXT),
    },
)
