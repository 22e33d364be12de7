"""Routes that a single command rarely uses.

Their handlers take long to import.
"""

from heatlite.api.access.policy import OPEN, SIGNAL
from heatlite.api.components import Components
from heatlite.api.handlers.actions import KEYS as ACTION_KEYS
from heatlite.api.handlers.actions import Actions
from heatlite.api.handlers.common import StackFinder
from heatlite.api.handlers.reasons import Reasons
from heatlite.api.handlers.resources.member_actions import MemberActions
from heatlite.api.handlers.resources.signals import SIGNED, ResourceSignal, SignedSignals
from heatlite.api.handlers.server import Versions
from heatlite.api.handlers.snapshots import Snapshots
from heatlite.api.handlers.software import SoftwareConfigs, SoftwareDeployments
from heatlite.api.handlers.stack_actions import StackActions
from heatlite.api.handlers.stack_preview import StackExport, StackPreview
from heatlite.api.handlers.suppressed import Lock
from heatlite.api.handlers.templates import ResourceTypes, TemplateVersions, Validate
from heatlite.api.routes import VERSION, P, Routes, S

PAGES = ("limit", "marker")
"""Query keys of a list without filters."""


def add(routes: Routes, components: Components) -> None:
    """Add the routes."""
    routes.add(VERSION, Versions(), "one", GET=OPEN)
    _add_stack_parts(routes, components)
    _add_templates_and_software(routes, components)


def _add_stack_parts(routes: Routes, components: Components) -> None:
    store, finder = components.store, StackFinder(components.store)
    maintenance, reading, signals = components.maintenance, components.reader, components.signals

    stacks, protection, scheduled = components.stacks, components.protection, components.scheduled
    off = components.types.installation.features_off
    controls, others = components.controls, components.stack_actions()
    stack_actions = StackActions(
        finder, stacks, maintenance, protection, signals, controls, scheduled, others, off
    )
    routes.add(S + "/actions", stack_actions, POST="actions:action")

    groups, joins, leaving = components.groups, components.joins, components.leaving
    policies, moves = components.group_policies, components.member_moves
    members = MemberActions(finder, reading, groups, joins, leaving, scheduled, policies, moves)
    routes.add_below("/actions", members, POST="actions:action")
    preview = StackPreview(finder, components.stacks, members, others, off, components.further)
    keys = dict.fromkeys(("PUT", "PATCH"), ("show_nested", "plan"))
    routes.add(S + "/preview", preview, query=keys, PUT="stacks:preview_update", PATCH="stacks:preview_update_patch")

    export = StackExport(finder, components.exports)
    routes.add(S + "/abandon", export, "abandon", DELETE="stacks:abandon")
    routes.add(S + "/export", export, GET="stacks:export")

    actions = Actions(store, components.controls, components.reasons, components.admission.guarding)
    routes.add(P + "/actions", actions, query={"GET": ACTION_KEYS}, GET="actions:list")
    routes.add(P + "/actions/{action}", actions, "one", GET="actions:show", POST="actions:signal")
    routes.add(P + "/actions/{action}/history", actions, "history", GET="actions:history")

    snapshots = Snapshots(finder, store, components.snapshots)
    routes.add(S + "/snapshots", snapshots, GET="stacks:list_snapshots", POST="stacks:snapshot")
    one = S + "/snapshots/{snapshot_id}"
    routes.add(one, snapshots, "one", GET="stacks:show_snapshot", DELETE="stacks:delete_snapshot")
    routes.add(one + "/restore", snapshots, "restore", POST="stacks:restore_snapshot")

    lock = Lock(finder, store, maintenance, routes.app)
    routes.add(S + "/lock", lock, GET="stacks:show_lock")
    routes.add(S + "/lock/suppressed/{suppressed_id}", lock, "suppressed", DELETE="stacks:drop_suppressed")
    routes.add(S + "/lock/suppressed/{suppressed_id}/replay", lock, "replay", POST="stacks:replay_suppressed")

    routes.add(S + "/why", Reasons(finder, components.reasons), GET="stacks:show")

    routes.add_below("/signal", ResourceSignal(finder, reading, signals), query={"POST": None}, POST=SIGNAL)
    routes.add_open_sink(SIGNED, SignedSignals(reading, signals).by_arn)


def _add_templates_and_software(routes: Routes, components: Components) -> None:
    validate, keys = Validate(components.stacks), ("show_nested", "ignore_errors", "all_errors")
    routes.add(P + "/validate", validate, query={"POST": keys}, POST="stacks:validate_template")

    resource_types = ResourceTypes(components.types, components.offer)
    every, filters = P + "/resource_types", ("name", "support_status", "version")
    flag = "with_description"
    routes.add(every, resource_types, query={"GET": (*filters, flag)}, GET="stacks:list_resource_types")
    one = every + "/{type_name}"
    routes.add(one, resource_types, "one", query={"GET": (flag,)}, GET="stacks:resource_schema")
    generate = {"GET": "stacks:generate_template"}
    routes.add(one + "/template", resource_types, "template", query={"GET": ("template_type",)}, **generate)

    template_versions = TemplateVersions()
    routes.add(P + "/template_versions", template_versions, GET="stacks:list_template_versions")
    functions, flag = P + "/template_versions/{version}/functions", "with_condition_func"
    listed = {"GET": "stacks:list_template_functions"}
    routes.add(functions, template_versions, "functions", query={"GET": (flag,)}, **listed)

    configs = SoftwareConfigs(components.store, components.software, components.reader)
    rules = {"GET": "software_configs:index", "POST": "software_configs:create"}
    routes.add(P + "/software_configs", configs, query={"GET": (*PAGES, "global_tenant")}, **rules)
    one = P + "/software_configs/{config_id}"
    routes.add(one, configs, "one", GET="software_configs:show", DELETE="software_configs:delete")

    deployments = SoftwareDeployments(components.software, components.reader)
    every = P + "/software_deployments"
    rules = {"GET": "software_deployments:index", "POST": "software_deployments:create"}
    routes.add(every, deployments, query={"GET": ("server_id",)}, **rules)
    routes.add(
        every + "/{deployment_id}",
        deployments,
        "one",
        GET="software_deployments:show",
        PUT="software_deployments:update",
        DELETE="software_deployments:delete",
    )
    routes.add(every + "/metadata/{server_id}", deployments, "metadata", GET="software_deployments:metadata")
