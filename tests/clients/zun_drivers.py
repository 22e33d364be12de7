"""A driver of Zun in place of Docker."""

from collections.abc import Mapping, Sequence
from typing import Any

from zun.common import consts
from zun.container.driver import BaseDriver, CapsuleDriver, ContainerDriver

FREE = "10.7.0.99"
"""Address in a network of which none is requested."""


class Dockerless(BaseDriver, ContainerDriver, CapsuleDriver):  # type: ignore[misc]
    """A driver whose containers are where and as Zun wants them."""

    capabilities: Mapping[str, bool] = {}

    def get_pci_resources(self) -> str:
        """Return no devices."""
        return "[]"

    def get_available_resources(self) -> dict[str, Any]:
        """Return the resources of the host, which has two processors."""
        counts = dict.fromkeys((f"{one}_containers" for one in ("total", "running", "paused", "stopped")), 0)
        return {**super().get_available_resources(), **counts, "cpus": 2, "labels": {}, "runtimes": ["runc"]}

    def list(self, context: Any) -> tuple[list[Any], list[Any]]:
        """Return no containers: none has changed by itself."""
        return [], []

    def update_containers_states(self, context: Any, containers: Sequence[Any], manager: Any) -> None:
        """Leave the states as they are."""

    def pull_image(self, context: Any, repo: str, tag: str, *words: object, **more: object) -> tuple[Any, bool]:
        """Return an image that is there."""
        return {"image": repo, "tag": tag, "driver": "docker", "path": None}, True

    def create(
        self, context: Any, container: Any, image: object, networks: Sequence[Any], volumes: Mapping[str, Any]
    ) -> Any:
        """Place a container in its networks."""
        container.addresses = {one["network"]: _addresses(one) for one in networks}
        return self._becomes(context, container, consts.CREATED)

    def start(self, context: Any, container: Any) -> Any:
        """Start a container."""
        return self._becomes(context, container, consts.RUNNING)

    def stop(self, context: Any, container: Any, timeout: object) -> Any:
        """Stop a container."""
        return self._becomes(context, container, consts.STOPPED)

    def show(self, context: Any, container: Any) -> Any:
        """Return a container as Zun knows it."""
        return container

    def update(self, context: Any, container: Any) -> None:
        """Leave it to Zun to write the new values."""

    def delete(self, context: Any, container: Any, force: bool) -> None:
        """Delete nothing."""

    def network_attach(self, context: Any, container: Any, network: Any) -> None:
        """Place a container in one more network."""
        container.addresses = {**container.addresses, network["network"]: _addresses(network)}
        container.save(context)

    def network_detach(self, context: Any, container: Any, network: str) -> None:
        """Take a container out of a network."""
        container.addresses = {name: found for name, found in container.addresses.items() if name != network}
        container.save(context)

    def attach_volume(self, context: Any, volume_mapping: Any) -> None:
        """Leave the volume unattached."""

    def detach_volume(self, context: Any, volume_mapping: Any) -> None:
        """Leave the volume unattached."""

    def _becomes(self, context: Any, container: Any, status: str) -> Any:
        container.status = status
        container.save(context)
        return container


def _addresses(network: Mapping[str, Any]) -> list[dict[str, Any]]:
    address = network.get("fixed_ip") or FREE
    return [{"addr": address, "version": 4, "port": network.get("port") or "", "preserve_on_delete": False}]
