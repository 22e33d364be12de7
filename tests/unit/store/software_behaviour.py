"""The software of a server on every database: clients that change it at once.

Test modules import these tests and add `store`.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from limit_behaviour import accepted

from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.errors import HeatliteError
from heatlite.engine.operations.software_configs import Software
from heatlite.plugin.ports import SoftwareConfig
from heatlite.store.store import Store

__all__: list[str] = []
"""Every test of this module, for `import *`."""
MOST = 20_000
LARGE = SoftwareConfig("large", "script", "z" * 6000)
SMALL = SoftwareConfig("small", "script", "z")
FITTING = 3
"""Large configurations that a server may have."""
CLIENTS = 6
ROUNDS = 5


def everywhere(test: Callable[..., None]) -> Callable[..., None]:
    __all__.append(test.__name__)
    return test


def software(store: Store) -> Software:
    return Software(store, Clock(), Settings(database=store.database.url, max_resource_data=MOST))


def fits(store: Store, server: str) -> int:
    """Return the number of large configurations, which do not exceed the limit."""
    return sum(one.name == LARGE.name for one in software(store).of_server("acme", server))


@everywhere
def test_clients_that_create_deployments_at_once_keep_the_limit_of_a_server(store: Store) -> None:
    parts = software(store)
    for number in range(ROUNDS):
        server = f"web{number}"
        configs = [parts.create_config("acme", LARGE).id for _ in range(CLIENTS)]

        def create(config_id: str, server: str = server) -> object:
            return parts.create_deployment("acme", server, config_id, {}, "CREATE", "COMPLETE", "")

        done = accepted(store, [lambda config_id=one: create(config_id) for one in configs])
        assert (done, fits(store, server)) == (FITTING, FITTING)


@pytest.mark.slow
@everywhere
def test_clients_that_change_the_configs_of_deployments_at_once_keep_the_limit_of_a_server(store: Store) -> None:
    parts = software(store)
    small = parts.create_config("acme", SMALL).id
    for number in range(ROUNDS):
        server = f"web{number}"
        configs = [parts.create_config("acme", LARGE).id for _ in range(CLIENTS)]
        made = [parts.create_deployment("acme", server, small, {}, "CREATE", "COMPLETE", "") for _ in configs]
        changes = [
            lambda made=one.id, config_id=config_id: parts.update_deployment("acme", made, {"config_id": config_id})
            for one, config_id in zip(made, configs, strict=True)
        ]
        done = accepted(store, changes)
        assert (done, fits(store, server)) == (FITTING, FITTING)


@everywhere
@pytest.mark.parametrize("deletes_first", [True, False])
def test_a_config_is_deployed_while_it_is_deleted(store: Store, deletes_first: bool) -> None:
    """The second one waits for the first, and is refused."""
    parts = software(store)
    config = parts.create_config("acme", SMALL).id
    own = parts.create_config("acme", SMALL).id
    changed = parts.create_deployment("acme", "web", own, {}, "CREATE", "COMPLETE", "")
    works: list[Callable[[], object]] = [
        lambda: parts.delete_config("acme", config),
        lambda: parts.create_deployment("acme", "web", config, {}, "CREATE", "COMPLETE", ""),
        lambda: parts.update_deployment("acme", changed.id, {"config_id": config}),
    ]
    delete, *deploys = works
    first, seconds = (delete, deploys) if deletes_first else (deploys[0], [delete])

    def after_it(work: Callable[[], object]) -> str:
        try:
            work()
        except HeatliteError as error:
            return type(error).__name__
        finally:
            store.close()
        return "done"

    with ThreadPoolExecutor(2) as pool:
        with store.transaction():
            first()
            others = [pool.submit(after_it, second) for second in seconds]
            wait(others, 0.5)
        refused = {other.result() for other in others}
    assert refused == {"HTTPBadRequest" if deletes_first else "InvalidRestrictedAction"}


@pytest.mark.slow
@everywhere
def test_resources_that_deploy_at_once_keep_the_limit_of_a_server(store: Store) -> None:
    """Some have deployed a smaller configuration before."""
    parts = software(store)
    for number in range(ROUNDS):
        server = f"web{number}"

        def deploy(name: str, config: SoftwareConfig, version: int, server: str = server) -> None:
            own = f"{server}-{name}"
            parts.deploy("acme", own, server, "CREATE", f"{own}-{version}", config, {}, awaited=True)

        for name in ("c0", "c1"):
            deploy(name, SMALL, 1)
        done = accepted(store, [lambda name=f"c{n}": deploy(name, LARGE, 2) for n in range(CLIENTS)])
        assert (done, fits(store, server)) == (FITTING, FITTING)
