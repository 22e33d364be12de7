"""Agents that serve networks with DHCP, and agents that host routers."""

from typing import cast

from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.services.network.common import conflict, missing
from heatlite.features.simulator.simulation import SimulatedProject, Verb

DHCP, L3 = "DHCP agent", "L3 agent"


def furnish(view: SimulatedProject) -> None:
    """Create two agents of each kind."""
    for kind in (DHCP, L3):
        for host in ("fake-1", "fake-2"):
            AGENT.create(view, agent_type=kind, host=host)


def _serve(view: SimulatedProject, verb: str, agent: Json, kind: str, served: Json) -> Json:
    thing = view.thing("network.agent", agent, verb)
    if thing["agent_type"] != kind:
        conflict(verb, f"Agent {agent} is not a valid {kind}.")
    known = cast(list[Json], thing["_serves"])
    if served in known:
        conflict(verb, f"{served} is already hosted by the {kind} {agent}.")
    thing["_serves"] = [*known, served]
    view.put("network.agent", thing)
    return {}


def _leave(view: SimulatedProject, verb: str, agent: Json, served: Json) -> Json:
    thing = view.thing("network.agent", agent, verb)
    known = cast(list[Json], thing["_serves"])
    if served not in known:
        raise missing(verb, f"{served} is not hosted by the agent {agent}.")
    thing["_serves"] = [one for one in known if one != served]
    view.put("network.agent", thing)
    return None


def _serving(view: SimulatedProject, served: Json, kind: str) -> Json:
    agents = view.simulation.all("network.agent").values()
    found: list[JsonMap] = [
        one for one in agents if served in cast(list[Json], one["_serves"]) and one["agent_type"] == kind
    ]
    return cast(Json, found)


def _add_network(view: SimulatedProject, agent: Json, network: Json) -> Json:
    view.thing("network.network", network, "network.add_dhcp_agent_to_network")
    return _serve(view, "network.add_dhcp_agent_to_network", agent, DHCP, network)


def _add_router(view: SimulatedProject, agent: Json, router: Json) -> Json:
    view.thing("network.router", router, "network.add_router_to_agent")
    return _serve(view, "network.add_router_to_agent", agent, L3, router)


AGENT = Collection(
    "network.agent", {"alive": True, "admin_state_up": True, "_serves": []}, owned=False, lacks=("create", "find")
)

COLLECTIONS = [AGENT]

VERBS: dict[str, Verb] = {
    "network.add_dhcp_agent_to_network": _add_network,
    "network.remove_dhcp_agent_from_network": lambda view, agent, network: _leave(
        view, "network.remove_dhcp_agent_from_network", agent, network
    ),
    "network.network_hosting_dhcp_agents": lambda view, network: _serving(view, network, DHCP),
    "network.add_router_to_agent": _add_router,
    "network.remove_router_from_agent": lambda view, agent, router: _leave(
        view, "network.remove_router_from_agent", agent, router
    ),
    "network.routers_hosting_l3_agents": lambda view, router: _serving(view, router, L3),
}
