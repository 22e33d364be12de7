"""The engine on a cloud: the simulated one, or a real one."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clouds import real
from tests.clouds.engine import OnCloud
from tests.engine.conftest import place  # noqa: F401 - the fixture


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The clouds.yaml of a project in the real cloud, which must be empty at the end."""
    pytest.importorskip("openstack", reason="openstacksdk is not installed: pip install -e '.[openstack]'")
    real.needed()
    with real.project(tmp_path_factory.mktemp("cloud")) as path:
        yield path


Begin = Callable[..., OnCloud]


@pytest.fixture
def simulated(place: Path) -> Iterator[Begin]:  # noqa: F811 - the fixture
    """`simulated()` → an engine on a simulated cloud; `admin=True`: as administrator."""
    yield from _engines(place, real=False)


@pytest.fixture
def real_cloud(place: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:  # noqa: F811
    """`real_cloud()` → an engine on the real cloud; `admin=True`: as administrator."""
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(project))
    yield from _engines(place, real=True)


def _engines(folder: Path, real: bool) -> Iterator[Begin]:
    engines: list[OnCloud] = []

    def begin(admin: bool = False) -> OnCloud:
        own = folder / f"{'real' if real else 'simulated'}-{len(engines)}"
        own.mkdir()
        engines.append(OnCloud(own, real, admin))
        return engines[-1]

    yield begin
    for engine in engines:
        try:
            engine.clear()
        finally:
            engine.close()
