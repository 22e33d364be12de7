"""Models of the tables. The migrations in `admin/migrations` create them.

JSON is stored as text: no SQL looks inside it, and text costs the least. Times are seconds since the epoch.
The models are bound to no database; `Database` runs the queries.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

import peewee

from heatlite.store.tables.access import AccessKey, Account, AccountProject, Credential
from heatlite.store.tables.actions import Action, Dependency, Service, Transition
from heatlite.store.tables.audit import Audit
from heatlite.store.tables.stacks import (
    AdoptedObject,
    Event,
    LargeValue,
    LimitLock,
    Mail,
    ProjectValue,
    Resource,
    Sink,
    Snapshot,
    SoftwareConfig,
    SoftwareDeployment,
    Stack,
    StackSize,
    Suppressed,
    SuppressedDropped,
    Template,
)

FEATURES = Path(__file__).parents[2] / "features"
MODELS: tuple[type[peewee.Model], ...] = (
    Template, Stack, Resource, Event, Action, Suppressed, SuppressedDropped, Service, Mail, SoftwareConfig,
    SoftwareDeployment, Sink, Snapshot, Dependency, Transition, Credential, Account, AccountProject, StackSize, Audit,
    LargeValue, AccessKey, ProjectValue, LimitLock, AdoptedObject,
)  # fmt: skip
"""The tables of the core."""


def _of_features() -> Iterator[ModuleType]:
    """Yield the modules of tables of all features, also of those that are off."""
    for name in sorted(one.parts[-3] for one in FEATURES.glob("*/store/tables.py")):
        yield import_module(f"heatlite.features.{name}.store.tables")


def models() -> Sequence[type[peewee.Model]]:
    """Return the tables of the core and of all features."""
    return (*MODELS, *(one for module in _of_features() for one in module.MODELS))


def holders() -> Sequence[type[peewee.Model]]:
    """Return the tables of features whose rows refer to large values of projects.

    These are `HOLDERS` of their modules.
    """
    return tuple(one for module in _of_features() for one in getattr(module, "HOLDERS", ()))
