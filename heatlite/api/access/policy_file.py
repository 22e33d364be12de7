"""`policy_file`: a policy.yaml of oslo.policy that overrides rules of the table.

A change takes effect with the next request.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import yaml
from oslo_config.cfg import ConfigOpts
from oslo_policy.policy import Enforcer, Rules, parse_file_contents

from heatlite.api.access.account_files import WatchedFile
from heatlite.api.access.policy import TABLE, rule_of
from heatlite.core.config import BadSetting
from heatlite.core.context import ADMIN, Context

log = logging.getLogger(__name__)

IS_ADMIN = "context_is_admin"

COMMON = {
    IS_ADMIN: f"role:{ADMIN}",
    "project_admin": f"role:{ADMIN}",
    "deny_stack_user": "not role:heat_stack_user",
    "deny_everybody": "!",
    "allow_everybody": "@",
}
"""Rules that a policy.yaml for Heat refers to."""

REFERENCE = re.compile(r"\brule:([^\s()]+)")
"""A rule in the check of another one."""


class PolicyFile:
    """Decides by the file, and by the table for rules that the file lacks."""

    def __init__(
        self, path: Path, more: Mapping[str, frozenset[str]], off: Callable[[], Iterable[str]] = lambda: ()
    ) -> None:
        """Take the rules of features as `more`; those of the core stand.

        `off` returns the rules of features that are off. Raises BadSetting.
        """
        self._enforcer = WatchedFile(path, "The policy", partial(_parse, {**more, **TABLE}, off))

    def allows(self, rule: str, caller: Context) -> bool:
        credentials = {
            "user_id": caller.user_id,
            "username": caller.user,
            "user_domain_id": caller.user_domain_id,
            "project_id": caller.project,
            "project_domain_id": caller.project_domain_id,
            "roles": sorted(caller.roles),
            "is_admin": caller.is_admin,
            "is_admin_project": True,  # callers outside of that project have lost the role by now
        }
        target = {"project_id": caller.project, "user_id": caller.user_id}
        enforcer = self._enforcer.get()
        asked = rule_of(rule, enforcer.rules)
        return asked is None or bool(enforcer.enforce(asked, target, credentials))

    def is_admin(self, caller: Context) -> bool:
        return self.allows(IS_ADMIN, caller)


def _parse(
    rules: Mapping[str, frozenset[str]], off: Callable[[], Iterable[str]], text: str, path: Path
) -> Enforcer:
    try:
        given = parse_file_contents(text)
    except (ValueError, yaml.YAMLError) as error:
        raise BadSetting(f"{path}: not valid YAML: {error}.") from None
    if not isinstance(given, dict) or not all(isinstance(rule, str) for pair in given.items() for rule in pair):
        raise BadSetting(f'{path}: each line must be "rule": "check", both text.')
    table = {rule: " or ".join(f"role:{role}" for role in sorted(roles)) for rule, roles in rules.items()}
    enforcer = Enforcer(ConfigOpts(), use_conf=False)
    known = {**COMMON, **table, **given}
    missing = {name for check in given.values() for name in REFERENCE.findall(check)} - known.keys()
    of_features = sorted(missing.intersection(off())) if missing else []
    if of_features:
        log.warning(
            "%s: rules refer to %s, of features that are off (setting `features`). Nobody has these rights.",
            path,
            ", ".join(of_features),
        )
    enforcer.set_rules(Rules.from_dict({**known, **dict.fromkeys(of_features, "!")}), use_conf=False)
    if not enforcer.check_rules():
        raise BadSetting(f"{path}: a rule refers to an unknown rule or to itself; the log names it.")
    return enforcer
