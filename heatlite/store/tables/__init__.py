"""Models of the tables. The migrations in `admin/migrations` create them.

JSON is stored as text: no SQL looks inside it, and text costs the least. Times are seconds since the epoch.
The models are bound to no database; `Database` runs the queries.
"""

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

MODELS: tuple[type[peewee.Model], ...] = (
    Template, Stack, Resource, Event, Action, Suppressed, SuppressedDropped, Service, Mail, SoftwareConfig,
    SoftwareDeployment, Sink, Snapshot, Dependency, Transition, Credential, Account, AccountProject, StackSize, Audit,
    LargeValue, AccessKey, ProjectValue, LimitLock, AdoptedObject,
)  # fmt: skip
"""The tables of the core."""
