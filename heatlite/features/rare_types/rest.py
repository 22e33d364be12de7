"""Services that openstacksdk does not cover."""

from typing import Final

from heatlite.clients.rest import LOAD_BALANCER, MESSAGING, TEXT, ObjectKind, RestCall, RestTables, Service

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
        "alarming.alarm": ObjectKind("/alarms", key="alarm_id"),
        "baremetal.node": ObjectKind("/nodes", many="nodes", key="uuid"),
        "baremetal.port": ObjectKind("/ports", many="ports", key="uuid", change="JSON-PATCH"),
        "baremetal.port_group": ObjectKind("/portgroups", many="portgroups", key="uuid"),
        "container.container": ObjectKind(
            "/containers", many="containers", key="uuid", creation="?run=true", change="PATCH"
        ),
        "container_infra.cluster": ObjectKind("/clusters", many="clusters", key="uuid", change="JSON-PATCH"),
        "container_infra.cluster_template": ObjectKind(
            "/clustertemplates", many="clustertemplates", key="uuid", change="JSON-PATCH"
        ),
        "database.cluster": ObjectKind("/clusters", "cluster", "clusters"),
        "database.flavor": ObjectKind(
            "/flavors", "flavor", "flavors", key="str_id"
        ),  # `id` is null unless it is a number
        "database.instance": ObjectKind("/instances", "instance", "instances", change="PATCH"),
        "identity.ec2_credential": ObjectKind(
            "/users/{}/credentials/OS-EC2", "credential", "credentials", key="access", bare=True
        ),
        "messaging.subscription": ObjectKind(
            "/queues/{}/subscriptions", many="subscriptions", key="subscription_id", change="PATCH"
        ),
        "network.l2_gateway": ObjectKind("/l2-gateways", "l2_gateway", "l2_gateways"),
        "network.l2_gateway_connection": ObjectKind(
            "/l2-gateway-connections", "l2_gateway_connection", "l2_gateway_connections"
        ),
        "network.metering_label_rule": ObjectKind(  # the SDK warns of remote_ip_prefix
            "/metering/metering-label-rules", "metering_label_rule", "metering_label_rules"
        ),
        "reservation.host": ObjectKind("/os-hosts", "host", "hosts", bare=True),
        "reservation.lease": ObjectKind("/leases", "lease", "leases", bare=True),
        "shared_file_system.security_service": ObjectKind(
            "/security-services", "security_service", "security_services", "/detail"
        ),
        "shared_file_system.share": ObjectKind("/shares", "share", "shares", "/detail"),
        "shared_file_system.share_network": ObjectKind("/share-networks", "share_network", "share_networks", "/detail"),
        "shared_file_system.share_snapshot": ObjectKind("/snapshots", "snapshot", "snapshots"),
        "shared_file_system.share_type": ObjectKind("/types", "share_type", "share_types"),
        "workflow.cron_trigger": ObjectKind("/cron_triggers", many="cron_triggers", key="name"),
        "workflow.execution": ObjectKind("/executions", many="executions"),
        "workflow.workflow": ObjectKind("/workflows", many="workflows"),
    },
    calls={
        "container.attach_container_network": RestCall("POST", "/containers/{}/network_attach", in_query=True),
        "container.detach_container_network": RestCall("POST", "/containers/{}/network_detach", in_query=True),
        "database.act_on_instance": RestCall("POST", "/instances/{}/action"),
        "database.change_user": RestCall("PUT", "/instances/{}/users/{}"),
        "database.create_databases": RestCall("POST", "/instances/{}/databases"),
        "database.create_users": RestCall("POST", "/instances/{}/users"),
        "database.delete_database": RestCall("DELETE", "/instances/{}/databases/{}"),
        "database.delete_user": RestCall("DELETE", "/instances/{}/users/{}"),
        "database.grant_databases": RestCall("PUT", "/instances/{}/users/{}/databases"),
        "database.revoke_database": RestCall("DELETE", "/instances/{}/users/{}/databases/{}"),
        "load_balancer.set_members": RestCall("PUT", "/lbaas/pools/{}/members"),
        "messaging.patch_queue": RestCall(
            "PATCH", "/queues/{}", "changes", "application/openstack-messaging-v2.0-json-patch"
        ),
        "messaging.share_queue": RestCall("POST", "/queues/{}/share"),
        "shared_file_system.act_on_share": RestCall("POST", "/shares/{}/action"),
        "shared_file_system.act_on_share_network": RestCall("POST", "/share-networks/{}/action"),
        "shared_file_system.delete_share_type_spec": RestCall("DELETE", "/types/{}/extra_specs/{}"),
        "shared_file_system.export_locations": RestCall("GET", "/shares/{}/export_locations"),
        "shared_file_system.security_services_of": RestCall("GET", "/security-services?share_network_id={}"),
        "shared_file_system.set_share_metadata": RestCall("PUT", "/shares/{}/metadata"),
        "shared_file_system.set_share_type_specs": RestCall("POST", "/types/{}/extra_specs"),
        "workflow.define_workflow": RestCall("POST", "/workflows", "definition", TEXT),
        "workflow.redefine_workflow": RestCall("PUT", "/workflows", "definition", TEXT),
    },
)
