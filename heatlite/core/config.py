"""Settings: read once at start, frozen afterwards.

Later sources override earlier ones: the default here, `heatlite.toml`, ``HEATLITE_<NAME>`` in the environment, a flag
of the command line.
"""

import logging
import os
import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import fields, force_setattr, replace

from heatlite.core.errors import Invalid
from heatlite.core.redaction.secret_fields import HidesSecrets
from heatlite.core.runtime.logs import LogFormat
from heatlite.core.runtime.setting_values import MAY_BE_UNLIMITED, TEXTS, UNLIMITED, Value, is_setting, setting_value
from heatlite.core.status import WorkKind

log = logging.getLogger(__name__)

SIMULATED = "simulated"
"""Value of the setting `cloud` that selects the simulated cloud."""


class Auth(StrEnum):
    """Authentication of API callers (docs/decisions/0012-access.md)."""

    NONE = "none"
    BASIC = "basic"
    TOKENS = "tokens"
    KEYSTONE = "keystone"


class BadSetting(Invalid):
    """Unknown setting, value of the wrong kind, or unreadable file."""


def _folder(variable: str, fallback: str, environ: Mapping[str, str]) -> Path:
    """Return heatlite's folder for one kind of file (XDG base directories)."""
    base = environ.get(variable)
    return (Path(base) if base else Path.home() / fallback) / "heatlite"


def default_database(environ: Mapping[str, str] = os.environ) -> str:
    """``sqlite:///…/heatlite/heatlite.db`` in the user's data folder."""
    return f"sqlite:///{_folder('XDG_DATA_HOME', '.local/share', environ) / 'heatlite.db'}"


def default_environment_dir(environ: Mapping[str, str] = os.environ) -> str:
    """Return ``heatlite/environment.d`` of the user, or else the one in /etc."""
    own = _folder("XDG_CONFIG_HOME", ".config", environ) / "environment.d"
    return str(own) if own.is_dir() else "/etc/heatlite/environment.d"


def default_account_files(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return ``heatlite/users`` and ``heatlite/tokens.toml`` of the user."""
    folder = _folder("XDG_CONFIG_HOME", ".config", environ)
    return {"users_file": str(folder / "users"), "tokens_file": str(folder / "tokens.toml")}


SECRET = frozenset(
    {"encryption_keys", "keystone", "password", "region_tokens", "stack_domain_admin_password", "token"}
)
"""Those of the core that are never shown, not even where they are wrong."""


class FeatureSettings(HidesSecrets, frozen=True):
    """Settings that a feature states: fields with defaults and descriptions.

    They have the same file and the same variables as those of the core, so their names begin with a word of the
    feature. `secret_fields` names those that are never shown.
    """

    is_known: ClassVar[bool] = True

    def check(self, settings: "Settings") -> None:
        """Raise BadSetting if those of the core, as they were read, contradict them."""


class UnknownSettings(FeatureSettings, frozen=True):
    """Settings of an installed feature that cannot be loaded."""

    is_known = False


_Kind = TypeVar("_Kind", bound=FeatureSettings)


class StatesSettings(Protocol):
    """An installed feature, as far as the settings read it."""

    name: str
    settings: type[FeatureSettings]


Features = Callable[[], Iterable[StatesSettings]]
"""Returns the installed features. It is called only where a name is none of the core's, as it imports them."""


class Settings(HidesSecrets, frozen=True):
    """Settings of an installation. Times are in seconds, sizes in bytes.

    The size limits are higher than Heat's (512 KiB, 1 MiB, 1000 resources per stack). A template with 10 000 resources
    has about 1.2 MB of JSON, and the engine creates such a stack in seconds. The limits still stop a body that would
    fill the memory.
    """

    secret_fields = SECRET

    database: str
    host: str = "127.0.0.1"
    port: int = 8004
    cloud: str | None = None
    """Cloud of the resources.
    An entry of clouds.yaml, ``envvars`` (the OS_* variables), or ``simulated``. None: only types that need no cloud."""
    cloud_timeout: float = 60.0
    """Time limit for an answer of a cloud service."""
    public_url: str | None = None
    """Address at which clients reach the server, for links and redirects.
    None: taken from the request."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies with a trusted X-Forwarded-For header.

    A list as `template_hosts`. Without entries the header is ignored.
    """
    auth: Auth = Auth.NONE
    """Authentication of callers.
    ``none``: no authentication, and only this machine may connect. ``basic``: a name and a password of `users_file`.
    ``tokens``: a token of `tokens_file`. ``keystone``: one of OpenStack's Keystone."""
    users_file: str = ""
    """Names and bcrypt hashes as `htpasswd -B` writes them.
    The file beside it with the suffix ``.toml`` has the roles in each project. `heatlite user add` writes both."""
    tokens_file: str = ""
    """File of SHA-256 hashes of tokens, with user and roles in projects.
    `heatlite user token` writes it."""
    policy_file: str | None = None
    """A policy.yaml that overrides the roles of rules; None: the defaults. Needs the extra `keystone`."""
    keystone: Mapping[str, str] = {}
    """Address of Keystone, and the account that validates tokens.

    The table ``[keystone]`` of the file; each key also as ``HEATLITE_KEYSTONE_<KEY>``. Needs the extra `keystone`.
    """
    stack_user_domain_id: str | None = None
    """Keystone domain in which agents of servers get accounts (Heat's).
    Used with `auth` = ``keystone``. None: see `stack_user_domain_name`."""
    stack_user_domain_name: str | None = None
    """The same domain by name. Without both, agents get no accounts."""
    stack_domain_admin: str | None = None
    """User, of that domain, who administers it (Heat's)."""
    stack_domain_admin_password: str | None = None
    """Password of `stack_domain_admin`."""
    username: str | None = None
    """User of the command line, for a server with `auth` = ``basic``."""
    password: str | None = None
    """Password of `username`; at a terminal the command line asks for it."""
    token: str | None = None
    """Token that the command line sends, with `auth` = ``tokens`` or ``keystone``."""
    threads: int = 8
    """Requests that one process handles at once."""
    api_processes: int = 1
    """Number of processes of `heatlite api`."""
    processes: int | None = None
    """Processes of `heatlite serve` that answer requests, beside the engine's process; 0: one process does all.
    None: 0 with one processor, 1 with two or three, 2 with more."""
    broker: str | None = None
    """Message broker between processes; None: a single process.
    ``amqp://user:password@host/vhost`` (RabbitMQ) or ``redis://host/0``."""
    queue_prefix: str = "heatlite"
    """Prefix of the broker's queues, the same for all processes of an installation."""
    worker_kinds: tuple[str, ...] = ()
    """Kinds of work that a worker with a broker takes: ``stack``, ``check``. A list as `template_hosts`; empty: all."""
    worker_zone: str | None = None
    """Zone (stacks tagged ``zone:NAME``) whose actions such a worker takes besides those without a zone.

    None: only the latter.
    """
    log_format: LogFormat = LogFormat.TEXT
    """``text`` for people, ``json`` for log collectors."""
    metrics: bool = False
    """Serve metrics for Prometheus at /metrics.
    Needs the extra `server`."""
    metrics_port: int = 0
    """Port for the metrics of a worker, which has no other port; 0: none."""
    max_event_streams: int = 100
    """Maximum of clients that follow event streams. They use none of the `threads`."""
    engine_slots: int = 8
    """Stack actions that run at once."""
    handler_threads: int = 16
    """Blocking calls of resource types that run at once."""
    lease_seconds: float = 30.0
    """Seconds without a heartbeat after which another engine takes over an engine's actions."""
    takeover_limit: int = 5
    """Takeovers of an action without progress before it ends FAILED."""
    default_action_timeout: int = 3600
    """Time limit of an action whose stack has none (`timeout_mins`)."""
    execution_retry_limit: int = 8
    """Retries of an action after a conflict or an outage; may be 0. They wait 1, 2, 4 … seconds."""
    error_wait_time: float = 240.0
    """Time for running resources after another failed or a cancel (Heat's)."""
    action_retry_limit: int = 5
    """Retries of a create or delete that failed temporarily (Heat's); may be 0."""
    max_template_size: int = 2 * 1024 * 1024
    max_json_body_size: int = 4 * 1024 * 1024
    max_resource_data: int = 8 * 1024 * 1024
    """Limit of a resource's properties and metadata, in characters of JSON.
    The same limit holds for the outputs that an answer shows, for a software config, and for those of a server."""
    max_stack_data: int = 64 * 1024 * 1024
    """Limit of a stack and what is nested in it, in characters of JSON.
    The same limit holds for what a preview shows, and for the values of a list of resources or snapshots."""
    max_resources_per_stack: int = 20_000
    """Those of nested stacks count as well. -1: no limit."""
    max_nested_stack_depth: int = 5
    """Levels of nested stacks below the first."""
    max_events_per_stack: int = 100_000
    """Number of newest events kept for each stack.
    Heat's 1000 would not hold half of one create of the largest stack (40 000 events)."""
    event_days: int = 365
    """Retention of events, in days."""
    action_days: int = 90
    """Retention of ended actions, in days. Features keep ended actions of their own as long."""
    audit_days: int = 365
    """Retention of the audit log, in days."""
    max_actions_per_stack: int = 1000
    """Number of newest actions kept for each stack.

    Older ones stay until they have ended. Features keep as many actions of their own for each thing they act on.
    """
    deleted_stack_days: int = 90
    """Retention of deleted stacks and their events, in days."""
    max_stacks_per_tenant: int = 512
    """Nested stacks do not count. -1: no limit. Authenticated administrators are exempt (Heat's)."""
    observe_on_update: bool = False
    """Observe the real objects before each update, as with `converge` (Heat's)."""
    max_software_configs_per_tenant: int = 4096
    """Configs derived by deployments count as well. -1: no limit."""
    max_software_deployments_per_tenant: int = 4096
    """-1: no limit."""
    enable_stack_abandon: bool = True
    """Allow stacks to be exported and abandoned (Heat's, off by default there)."""
    enable_stack_adopt: bool = True
    """Allow abandoned stacks to be adopted (Heat's, off by default there)."""
    max_snapshots_per_stack: int = 32
    """-1: no limit."""
    features: tuple[str, ...] | None = None
    """Features that are on; None: all that are installed. A list as `template_hosts`."""
    environment_dir: str = "/etc/heatlite/environment.d"
    """Folder of the installation's environment files.
    They map types for all stacks."""
    hidden_stack_tags: tuple[str, ...] = ("data-processing-cluster",)
    """Tags of stacks that lists leave out, unless `show_hidden` asks for them. A list as `template_hosts`."""
    template_hosts: tuple[str, ...] = ()
    """Hosts that the server may fetch templates from; none: it fetches nothing.

    Each is ``name`` or ``name:port``.

    A list in the file; with commas between them in the environment. A name that leads to an address that is not public
    needs that address in the list, too.
    """
    signal_url_lifetime: float = 10 * 365 * 86400.0
    """Lifetime of a resource's signed URLs, counted from its creation."""
    webhook_hosts: tuple[str, ...] = ()
    """Hosts of event sinks that may have addresses that are not public.
    As in `template_hosts`."""
    regions: tuple[str, ...] = ()
    """Regions in which OS::Heat::Stack may make stacks.
    ``NAME=https://host:8004/v1/{project}``; a list as `template_hosts`."""
    region_tokens: tuple[str, ...] = ()
    """X-Auth-Token for regions: ``NAME=TOKEN``; a list as `template_hosts`."""
    client_retry_limit: int = 2
    """Retries of unanswered requests to the Heat of another region (OS::Heat::Stack); may be 0."""
    template_fetch_timeout: float = 10.0
    """Time limit for fetching one template."""
    files_containers: str | None = None
    """Containers that requests name (`files_container`); None: there are none.
    ``<project>/<container>``."""
    encryption_keys: tuple[str, ...] = ()
    """Keys that encrypt secrets in the database, as `heatlite keys new` prints.

    32 bytes in URL-safe base64; a list as `template_hosts`. The first one encrypts, all of them decrypt.

    Where none is given, a SQLite database has a key beside it, the file ``heatlite.key``; a database server has none.
    Needs the extra `server`. Without a key hidden parameters lie in the database in clear, and what callers
    prove themselves with is not stored.
    """
    of_features: tuple[FeatureSettings, ...] = ()
    """Settings of features that are on, where one of them is set. No setting itself: see `of`."""

    def __post_init__(self) -> None:
        for name in MAY_BE_UNLIMITED:
            if getattr(self, name) == UNLIMITED:
                force_setattr(self, name, sys.maxsize)  # compares like any other limit
        known = ", ".join(sorted(WorkKind))
        for name in self.worker_kinds:
            if name not in list(WorkKind):
                raise BadSetting(f"worker_kinds: there is no kind of work {name!r}; there are: {known}.")

    def of(self, kind: type[_Kind]) -> _Kind:
        """Return the settings of a feature, or its defaults."""
        return next((one for one in self.of_features if isinstance(one, kind)), kind())

    def has_feature(self, name: str) -> bool:
        """Return True if a feature is on."""
        return self.features is None or name in self.features

    @property
    def kinds(self) -> frozenset[WorkKind] | None:
        """`worker_kinds`; None: all."""
        return frozenset(WorkKind(name) for name in self.worker_kinds) or None

    def time_limit(self, timeout: float) -> float:
        """Return the time limit of an action: that of its stack, or the default for 0."""
        return timeout or self.default_action_timeout

    @property
    def serve_processes(self) -> int:
        """`processes`, or its default for this machine."""
        if self.processes is not None:
            return self.processes
        return min(2, (os.cpu_count() or 1) // 2)

    @property
    def shown_database(self) -> str:
        """`database` for a log: without a password."""
        scheme, _, rest = self.database.partition("://")
        if scheme == "sqlite":
            return self.database
        user, at, place = rest.partition("?")[0].rpartition("@")
        return f"{scheme}://{user.partition(':')[0]}{at}{place}"

    @property
    def address(self) -> str:
        """``127.0.0.1:8004`` or ``[::1]:8004``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _convert(name: str, kind: object, value: object, origin: str, secrets: Container[str] = SECRET) -> Value:
    """Return a value as the type of its field.

    Errors do not show one of the `secrets`. Raises BadSetting.
    """
    try:
        return setting_value(name, kind, value, name in secrets, origin.startswith("HEATLITE_"))
    except ValueError as error:
        raise BadSetting(f"{origin}: {error}") from None


def _read_file(path: Path) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadSetting(f"{path}: cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(f"{path}: not valid TOML: {error}.") from None


def _known(name: str, known: Sequence[str]) -> str:
    """Name the setting that may be meant, and the command that lists all."""
    import difflib

    close = difflib.get_close_matches(name, known, 1)
    listing = f"`heatlite config show --config {os.devnull}` lists all"
    return f"did you mean {close[0]}? {listing}" if close else listing


def _warn_of_readers(path: Path, given: Mapping[str, object], secrets: Container[str]) -> None:
    """Warn if users other than the owner may read secrets in a settings file."""
    found = [name for name, value in given.items() if name in secrets or "@" in _authority(value)]
    if found and path.stat().st_mode & 0o044:
        log.warning("%s: other users may read %s in it: chmod 600 %s", path, ", ".join(sorted(found)), path)


def _authority(value: object) -> str:
    """The part of a URL that may have a user and a password."""
    return value.partition("://")[2].partition("/")[0] if isinstance(value, str) else ""


def _types(kind: type[Struct]) -> dict[str, object]:
    """Return the settings that a struct has, with the types of their values."""
    return {field.name: field.type for field in fields(kind) if field.name != "of_features"}


_CORE = _types(Settings)

def _known_types(stated: Iterable[StatesSettings]) -> dict[str, object]:
    """Return the settings of the core and of features, with the types of their values."""
    return {**{name: kind for one in stated for name, kind in _types(one.settings).items()}, **_CORE}


def check_stated(features: Iterable[StatesSettings]) -> None:
    """Check that the settings that features state can be read.

    Raises BadSetting for a name that is taken, a type that no file can have, a field without a default, and a secret
    that is no text.
    """
    owners = dict.fromkeys(_CORE, "the core")
    for one in features:
        for field in fields(one.settings):
            fault = None
            if field.name in owners:
                fault = f"{owners[field.name]} has one of this name"
            elif not is_setting(field.type):
                fault = "a setting is a text, a number, true or false, a choice, or a list or table of texts"
            elif field.required:
                fault = "it needs a default"
            elif field.name in one.settings.secret_fields and field.type not in TEXTS:
                fault = "a secret is a text, or a list or table of texts"
            if fault is not None:
                raise BadSetting(f"features: {one.name} cannot have the setting {field.name}: {fault}.")
            owners[field.name] = one.name


def secret_names(features: Iterable[StatesSettings]) -> frozenset[str]:
    """Return the settings of the core and of features that are never shown."""
    return SECRET.union(*(one.settings.secret_fields for one in features))


def _given(
    types: Mapping[str, object],
    in_file: Mapping[str, object],
    path: Path,
    environ: Mapping[str, str],
    secrets: Container[str] = SECRET,
) -> dict[str, Value]:
    """Return what file and environment say for some settings. Raises BadSetting."""
    read = {name: value for name, value in in_file.items() if name in types}
    values = {name: _convert(name, types[name], value, str(path), secrets) for name, value in read.items()}
    for name, kind in types.items():
        variable = f"HEATLITE_{name.upper()}"
        text = environ.get(variable)
        if kind == Mapping[str, str]:
            prefix = f"{variable}_"
            given = {key[len(prefix) :].lower(): value for key, value in environ.items() if key.startswith(prefix)}
            table = values.get(name, {})
            assert isinstance(table, Mapping)
            values[name] = {**table, **given}
        elif text:
            values[name] = _convert(name, kind, text, variable, secrets)
    return values


def load(
    features: Features,
    flags: Mapping[str, str | int | float | None] | None = None,
    file: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """Settings from all four places. A flag that is None was not given.

    `file` has to exist if it is named; the one in the user's configuration folder need not. Settings of features that
    are off are ignored. So are unknown ones while an installed feature cannot be loaded: they may be its own. Raises
    BadSetting.
    """
    path, in_file = _read(file, environ)
    stated = _stated(features, in_file, environ)
    known, secrets = _known_types(stated), secret_names(stated)
    for name in in_file:
        if name not in known:
            fault = f"{path}: there is no setting {name!r}; {_known(name, sorted(known))}."
            if all(one.settings.is_known for one in stated):
                raise BadSetting(fault)
            log.warning("%s It is ignored: a feature that cannot be loaded may have it.", fault)
    _warn_of_readers(path, in_file, secrets)
    values: dict[str, Value] = {
        "database": default_database(environ),
        "environment_dir": default_environment_dir(environ),
        **default_account_files(environ),
        **_given(_CORE, in_file, path, environ),
    }
    for name, flag in (flags or {}).items():
        if flag is not None:
            values[name] = _convert(name, _CORE[name], flag, f"--{name.replace('_', '-')}")
    settings = Settings(**values)  # type: ignore[arg-type]  # each value has just been made the type of its field
    on = [one for one in stated if settings.has_feature(one.name)]
    check_stated(on)
    kinds = [one.settings for one in on]
    of_features = tuple(kind(**_given(_types(kind), in_file, path, environ, secrets)) for kind in kinds)
    for one in of_features:
        one.check(settings)
    return replace(settings, of_features=of_features)


def _read(file: Path | None, environ: Mapping[str, str]) -> tuple[Path, Mapping[str, object]]:
    """Return the place and the content of the file. Raises BadSetting."""
    path = file or _folder("XDG_CONFIG_HOME", ".config", environ) / "heatlite.toml"
    return path, _read_file(path) if file is not None or path.exists() else {}


def _stated(features: Features, in_file: Iterable[str], environ: Mapping[str, str]) -> Sequence[StatesSettings]:
    """Return all installed features; none if no name asks for them."""
    if {*in_file} <= _CORE.keys() and not _unknown(_CORE, environ):
        return ()
    return [*features()]


def all_values(settings: Settings, features: Features) -> dict[str, object]:
    """Return the values of all settings of the core and of features that are on."""
    found = {name: getattr(settings, name) for name in _CORE}
    for one in features():
        if settings.has_feature(one.name):
            mine = settings.of(one.settings)
            found |= {name: getattr(mine, name) for name in mine.__struct_fields__}
    return found


def origins(
    names: Iterable[str],
    flags: Mapping[str, str | int | float | None],
    file: Path | None,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """Return where each setting comes from: flag, environment, the file, or default.

    Raises BadSetting.
    """
    path, in_file = _read(file, environ)

    def origin(name: str) -> str:
        if flags.get(name) is not None:
            return "flag"
        if environ.get(f"HEATLITE_{name.upper()}"):
            return "environment"
        return str(path) if name in in_file else "default"

    return {name: origin(name) for name in names}


OTHER_VARIABLES = ("HEATLITE_ENDPOINT", "HEATLITE_PROJECT", "HEATLITE_CONTEXT", "HEATLITE_CACERT")
"""Variables of the command line that are no settings of a server."""

_FOREIGN = ("HEATLITE_TEST_", "HEATLITE_AGENT_", "HEATLITE_CORPUS", "HEATLITE_HEAT_SCHEMAS")
"""Beginnings of variables of the tests and of the agent."""


def _unknown(known: Mapping[str, object], environ: Mapping[str, str]) -> list[str]:
    """Return the ``HEATLITE_…`` variables that are none of the settings named, sorted."""
    variables = {*OTHER_VARIABLES, *(f"HEATLITE_{name.upper()}" for name in known)}
    tables = tuple(f"HEATLITE_{name.upper()}_" for name, kind in known.items() if kind == Mapping[str, str])
    return sorted(
        name
        for name in environ
        if name.startswith("HEATLITE_") and name not in variables and not name.startswith((*tables, *_FOREIGN))
    )


def unknown_variables(features: Features, environ: Mapping[str, str]) -> dict[str, str | None]:
    """Return unknown ``HEATLITE_…`` variables, each with a similar setting or None."""
    known = _known_types(_stated(features, (), environ))
    unknown = _unknown(known, environ)
    if not unknown:
        return {}
    import difflib

    prefix = "HEATLITE_"
    words = [*(name.upper() for name in known), *(name.removeprefix(prefix) for name in OTHER_VARIABLES)]
    close = {name: difflib.get_close_matches(name.removeprefix(prefix), words, 1) for name in unknown}
    return {name: prefix + found[0] if found else None for name, found in close.items()}
