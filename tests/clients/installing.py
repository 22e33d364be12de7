"""Install clients from PyPI, each into its own environment with its versions."""

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

VARIABLE = "HEATLITE_TEST_CLIENTS"
SECONDS = 1200
"""Time limit of an installation."""


def folder() -> Path:
    """Return the folder of the environments, which later runs use again.

    Skip if none is named.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        pytest.skip(f"{VARIABLE} names no folder to install clients into")
    found = Path(named)
    found.mkdir(parents=True, exist_ok=True)
    return found


def environment(name: str, *requirements: str) -> Path:
    """Return the folder of the environment's programs.

    Skip if the packages cannot be installed.
    """
    place = folder() / name
    with locked(name):
        done = place / "installed"
        if not done.exists() or done.read_text() != "\n".join(requirements):
            _install(name, place, requirements)
            done.write_text("\n".join(requirements))
    return place / "bin"


def source(package: str, version: str) -> Path:
    """Return the unpacked source package. Skip if it cannot be downloaded."""
    place = folder() / "sources"
    pip = environment("packaging", "pbr", "pip", "setuptools>=70.1") / "pip"  # an environment need not have a pip
    with locked("sources"):
        place.mkdir(exist_ok=True)
        unpacked = place / f"{package.replace('-', '_')}-{version}"
        if not unpacked.exists():
            wanted = f"{package}=={version}"
            options = ("download", "-q", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", str(place))
            _run(package, str(pip), *options, wanted)
            (archive,) = place.glob(f"{unpacked.name}.tar.gz")
            with tarfile.open(archive) as content:
                content.extractall(place, filter="data")
    return unpacked


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Inside, no other process of tests installs or changes the same."""
    with (folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(name: str, place: Path, requirements: tuple[str, ...]) -> None:
    """Use uv where it is installed: on a busy machine pip needs minutes more."""
    uv = shutil.which("uv")
    if uv is None:
        _run(name, sys.executable, "-m", "venv", str(place))
        _run(name, str(place / "bin" / "pip"), "install", "-q", *requirements)
    else:
        _run(name, uv, "venv", "-q", "--allow-existing", "-p", sys.executable, str(place))
        _run(name, uv, "pip", "install", "-q", "-p", str(place / "bin" / "python"), *requirements)


def _run(what: str, *words: str) -> None:
    try:
        subprocess.run(words, check=True, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{what} cannot be installed: no end after {SECONDS} s")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"{what} cannot be installed: {error.stderr[-500:]}")
