"""The change policy that counts for a stack: what other features read of policies."""

from collections.abc import Mapping
from functools import lru_cache
from textwrap import indent

from msgspec import convert

from heatlite.core.config import Settings
from heatlite.core.json import AnyMap, as_map
from heatlite.features.change_policy.api.rules import PUT
from heatlite.features.change_policy.document import (
    VERSION,
    About,
    Approve,
    ChangePolicyValues,
    Effective,
    Occasion,
    PlacedRule,
    PlanRule,
    PolicyKeys,
    PolicyOrigin,
    ProjectDocument,
    Reads,
    RuleResult,
    SettingsTable,
    SignalMode,
    StackDocument,
    of_yaml,
    read_document,
    rules_of,
    strictest,
)
from heatlite.features.change_policy.feature import ChangePolicySettings
from heatlite.features.change_policy.store.store import ChangePolicyStore, memo_key
from heatlite.store.store import Store

__all__ = [
    "PUT",
    "VERSION",
    "About",
    "Approve",
    "ChangePolicyValues",
    "Effective",
    "Occasion",
    "PlacedRule",
    "PlanRule",
    "PolicyOrigin",
    "ProjectDocument",
    "Reads",
    "RuleResult",
    "SignalMode",
    "any_rules",
    "effective",
    "of_yaml",
    "read_document",
    "rules_of",
]  # fmt: skip


def effective(store: Store, settings: Settings, project: str, root_id: str = "") -> Effective:
    """Return the policy that counts for a root stack.

    Without an id, that for a new stack of the project. One query, and one in all of a transaction: several features
    ask.
    """
    memo, key = store.database.transaction_memo, memo_key(project, root_id)
    known = memo.get(key)
    if not isinstance(known, Effective):
        known = memo[key] = _read(store, settings, project, root_id)
    return known


def _read(store: Store, settings: Settings, project: str, root_id: str) -> Effective:
    stored = store.of(ChangePolicyStore).of(project, root_id)
    values = tuple(settings.of(ChangePolicySettings).change_policy.items())
    if not stored:
        return _of_operator(values)
    documents: dict[PolicyOrigin, PolicyKeys] = {PolicyOrigin.OPERATOR: _table(values)}
    for record in stored:
        if record.document is not None:
            origin = PolicyOrigin.STACK if record.stack_id else PolicyOrigin.PROJECT
            documents[origin] = convert(record.document, StackDocument if record.stack_id else ProjectDocument)
    return strictest(documents)


def operators(settings: Settings) -> PolicyKeys:
    """Return the policy in the settings, which have been checked."""
    return _table(tuple(settings.of(ChangePolicySettings).change_policy.items()))


@lru_cache(maxsize=16)
def _of_operator(values: tuple[tuple[str, str], ...]) -> Effective:
    """Return what counts where no project and no stack has a policy."""
    return strictest({PolicyOrigin.OPERATOR: _table(values)})


@lru_cache(maxsize=16)
def _table(values: tuple[tuple[str, str], ...]) -> SettingsTable:
    return read_table(dict(values))


def read_table(values: Mapping[str, str]) -> SettingsTable:
    """Return the table of the settings, whose rules are a text in YAML or JSON.

    Raises ValidationError, HTTPBadRequest.
    """
    found: AnyMap = dict(values)
    if "rules" in found:
        from heatlite.template.source.loader import load

        read = load(f"rules:\n{indent(values['rules'], ' ')}", "[change_policy]", "Table").data
        found |= as_map(of_yaml(read))
    return convert(found, SettingsTable, strict=False)


def any_rules(store: Store, settings: Settings) -> bool:
    """Return whether the operator or a project may have rules."""
    return bool(rules_of(operators(settings))) or store.of(ChangePolicyStore).any_rules()
