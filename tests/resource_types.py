"""All installed resource types: those of the core and of features."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest

from heatlite.clients import rest
from heatlite.clients.finders import Finder
from heatlite.core.config import Settings
from heatlite.feature import finders, installed, registry
from heatlite.plugin.registry import Registry
from heatlite.resources import BUILTIN

_FEATURES = installed()
ALL_TYPES: Final[Mapping[str, str]] = {**BUILTIN, **{name: at for one in _FEATURES for name, at in one.types().items()}}
"""Type name → ``module:Class``, for `Registry`."""
FINDERS: Final[Mapping[str, Finder | None]] = finders(Settings(database=""))
"""Finders by constraint."""
REST: Final = [rest.CORE, *(tables for one in _FEATURES if (tables := one.rest()) is not None)]
"""Services that openstacksdk does not cover."""
SERVICES: Final = {one.name: one for tables in REST for one in tables.services}
"""These by name."""

registry(Settings(database=""))  # makes the constraints known


def gone() -> set[str]:
    """Return the types that no template may have any more."""
    types = Registry(ALL_TYPES)
    return {name for name in ALL_TYPES if types.get(name).gone}


def needs(*types: str) -> pytest.MarkDecorator:
    """Return the mark of a test that needs types of a feature."""
    return pytest.mark.skipif(not {*types} <= ALL_TYPES.keys(), reason="the feature of these types is not installed")


def are_there(resources: Iterable[Mapping[str, Any]]) -> bool:
    """Return True if the types of resources are installed."""
    return all(one["type"] in ALL_TYPES for one in resources)
