"""Models of all tables. The migrations in `admin/migrations` create them.

JSON is stored as text: no SQL looks inside it, and text costs the least. Times are seconds since the epoch.
The models are bound to no database; `Database` runs the queries.
"""

import peewee

from heatlite.features.healing.store.tables import (
    HealingPolicy,
    HealingScope,
    HealingSweep,
    HealthSource,
    HealthToken,
    Incident,
    Observation,
    Repair,
)
from heatlite.store.tables.access import AccessKey, Account, AccountProject, Credential, UiSession
from heatlite.store.tables.actions import Action, Dependency, Service, Transition
from heatlite.store.tables.audit import Audit
from heatlite.store.tables.nodes import Node, NodeAction, NodePlaybook, NodeTransition, Orchestration
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
    SoftwareDeployment, Sink, Snapshot, Dependency, Transition, Credential, Node, NodeAction, NodeTransition,
    Orchestration, NodePlaybook, Account, AccountProject, StackSize, HealthSource, HealthToken,
    Observation, Incident, HealingPolicy, HealingScope, Repair, HealingSweep, Audit,
    UiSession, LargeValue, AccessKey, ProjectValue, LimitLock, AdoptedObject,
)  # fmt: skip
