"""The file of a simulated cloud, which several processes use at once."""

import multiprocessing
from pathlib import Path

import pytest

from heatlite.clients.cloud import CloudError
from heatlite.core.clock import Clock
from heatlite.core.json import Json
from heatlite.features.simulator import simulation
from heatlite.features.simulator.services.registry import simulate
from heatlite.features.simulator.simulation import FAULT, Scenario, SimulatedFault, SimulatedProject

NETWORKS = 40


def view(path: Path, *faults: SimulatedFault) -> SimulatedProject:
    return simulate(Scenario(faults=faults), Clock(), path).view("demo")


def names(cloud: SimulatedProject) -> list[Json]:
    found = cloud.call("network.networks")
    assert isinstance(found, list)
    return [one["name"] for one in found if isinstance(one, dict) and one["name"] != "public"]


def test_one_sees_what_another_has_done(tmp_path: Path) -> None:
    one, other = view(tmp_path / "cloud"), view(tmp_path / "cloud")
    for name in ("a", "b", "c"):
        one.call("network.create_network", name=name)
    assert names(other) == ["a", "b", "c"]
    found = other.call("network.find_network", "b")
    assert isinstance(found, dict)
    other.call("network.update_network", found["id"], name="d")
    assert names(one) == ["a", "d", "c"]
    one.call("network.delete_network", found["id"])
    assert names(other) == ["a", "c"]
    assert names(view(tmp_path / "cloud")) == ["a", "c"]
    assert simulation.count(tmp_path / "cloud", "demo")["network.network"] == 2


def test_faults_are_counted_together(tmp_path: Path) -> None:
    fault = SimulatedFault("network.create_network", number=3, raises="refused")
    one, other = view(tmp_path / "cloud", fault), view(tmp_path / "cloud", fault)
    one.call("network.create_network", name="a")
    other.call("network.create_network", name="b")
    with pytest.raises(CloudError):
        one.call("network.create_network", name="c")
    other.call("network.create_network", name="d")
    simulation.begin(tmp_path / "cloud")
    assert not simulate(Scenario(), Clock(), tmp_path / "cloud").all(FAULT)
    assert names(view(tmp_path / "cloud")) == ["a", "b", "d"]


def make(path: Path, process: int) -> None:
    cloud = view(path)
    for number in range(NETWORKS):
        cloud.call("network.create_network", name=f"{process}-{number}")


@pytest.mark.slow
def test_processes_take_turns(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("spawn")
    made = [fork.Process(target=make, args=(tmp_path / "cloud", number)) for number in range(3)]
    for process in made:
        process.start()
    for process in made:
        process.join()
    assert [process.exitcode for process in made] == [0, 0, 0]
    assert len(set(map(str, names(view(tmp_path / "cloud"))))) == 3 * NETWORKS
