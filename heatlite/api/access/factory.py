"""Creates the access control that the settings choose.

Imports the libraries of an authentication method only if it is used.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from heatlite.api.access.account_files import Projects, add_token, write_account
from heatlite.api.access.authentication import AccessControl, Authenticator, Credentials
from heatlite.api.access.login_throttle import proxies
from heatlite.api.access.policy import Policy, Table
from heatlite.api.access.tokens import Tokens
from heatlite.core.clock import Clock
from heatlite.core.config import Auth, Settings
from heatlite.core.runtime.extras import MissingLibrary
from heatlite.engine.outbound.self_auth import SelfAuth
from heatlite.engine.types.agent_accounts import Accounts


def create_access_control(
    settings: Settings,
    clock: Clock,
    rules: Mapping[str, frozenset[str]],
    self_auth: SelfAuth | None = None,
    accounts: Accounts | None = None,
    others: Sequence[Credentials] = (),
    rules_off: Callable[[], Iterable[str]] = lambda: (),
) -> AccessControl:
    """Create the access control.

    `rules` and `others` are those of features, `rules_off` returns the rules of features that are off. Raises
    BadSetting, MissingLibrary.
    """
    policy = _policy(settings, rules, rules_off)
    return AccessControl(_authenticator(settings, clock), policy, self_auth, accounts, others)


def _authenticator(settings: Settings, clock: Clock) -> Authenticator | None:
    match settings.auth:
        case Auth.NONE:
            return None
        case Auth.TOKENS:
            return Tokens(Path(settings.tokens_file), clock)
        case Auth.BASIC:
            try:
                from heatlite.api.access.passwords import Basic
            except ImportError as error:
                raise MissingLibrary("The setting auth = basic", error.name, "server") from error
            return Basic(Path(settings.users_file), clock.now, proxies(settings.trusted_proxies))
        case Auth.KEYSTONE:
            try:
                from heatlite.api.access.keystone import Keystone
            except ImportError as error:
                raise MissingLibrary("The setting auth = keystone", error.name, "keystone") from error
            return Keystone(settings.keystone, clock.now, proxies(settings.trusted_proxies))


def _policy(
    settings: Settings, rules: Mapping[str, frozenset[str]], rules_off: Callable[[], Iterable[str]]
) -> Policy:
    if settings.policy_file is None:
        return Table(rules)
    try:
        from heatlite.api.access.policy_file import PolicyFile
    except ImportError as error:
        raise MissingLibrary("The setting policy_file", error.name, "keystone") from error
    return PolicyFile(Path(settings.policy_file), rules, rules_off)


def add_user(settings: Settings, user: str, password: str, projects: Projects) -> Path:
    """Write the password and roles of a user. Returns the file.

    Raises BadSetting, MissingLibrary.
    """
    try:
        from heatlite.api.access.passwords import hash_password
    except ImportError as error:
        raise MissingLibrary("The setting auth = basic", error.name, "server") from error
    path = Path(settings.users_file)
    write_account(path, user, hash_password(password), projects)
    return path


def create_token(settings: Settings, user: str, projects: Projects, expires: float | None) -> str:
    """Create a token, and store its digest. Raises BadSetting."""
    return add_token(Path(settings.tokens_file), user, projects, expires)
