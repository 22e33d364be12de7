"""Settings: read once at start, frozen afterwards.

Later sources override earlier ones: the default here, `heatlite.toml`, ``HEATLITE_<NAME>`` in the environment, a flag
of the command line.
"""

import logging
import math
import os
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec.structs import fields, force_setattr

from heatlite.core.errors import Invalid
from heatlite.core.logs import LogFormat
from heatlite.core.secret_fields import HidesSecrets
from heatlite.core.status import Kind

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
"""Never shown, not even where they are wrong."""


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
    simulation: str | None = None
    """File that scripts the simulated cloud (docs/trials.md)."""
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
    ui: bool = False
    """Serve the dashboard at /ui (docs/dashboard.md).
    Needs the extra `server`."""
    ui_session_hours: float = 8.0
    """Hours after which the dashboard asks for the credentials again."""
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
    """Retention of ended actions and node actions, in days."""
    incident_days: int = 90
    """Retention of closed incidents with their observations, and of ended observations, in days."""
    audit_days: int = 365
    """Retention of the audit log, in days."""
    max_actions_per_stack: int = 1000
    """Number of newest actions kept for each stack, and of node actions for each node.

    Older ones stay until they have ended.
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
    node_approval_by_another: bool = False
    """Require another user than the requester to approve a node action.
    For installations that authenticate callers."""
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
    node_hosts: tuple[str, ...] = ()
    """Hosts and networks in which the server connects to agents of nodes.
    Hosts as in `template_hosts`, networks as ``10.0.0.0/8``. Without authentication, agents on this machine are
    allowed, too."""
    node_orchestration_interval: float = 60.0
    """Longest time between two polls of a stack's agents, in seconds."""
    node_connections: int = 50
    """Number of agents of a stack's nodes that are polled at once."""
    node_send_attempts: int = 10
    """Failed sends of a node action before it is FAILED. One is counted per `node_orchestration_interval`."""
    node_certificate: str = ""
    """The certificate (PEM) that the server shows to agents that listen with TLS."""
    node_key: str = ""
    """The key of `node_certificate`, where that file does not have it."""
    node_authority: str = ""
    """Certificate authority of agents (PEM).
    Without it, the authorities that the machine trusts."""
    regions: tuple[str, ...] = ()
    """Regions in which OS::Heat::Stack may make stacks.
    ``NAME=https://host:8004/v1/{project}``; a list as `template_hosts`."""
    region_tokens: tuple[str, ...] = ()
    """X-Auth-Token for regions: ``NAME=TOKEN``; a list as `template_hosts`."""
    client_retry_limit: int = 2
    """Retries of unanswered requests to other services (Heat's); may be 0."""
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

    def __post_init__(self) -> None:
        for name in MAY_BE_UNLIMITED:
            if getattr(self, name) == UNLIMITED:
                force_setattr(self, name, sys.maxsize)  # compares like any other limit
        if self.node_approval_by_another and self.auth is Auth.NONE:
            raise BadSetting(
                "node_approval_by_another: it needs authentication, and auth is none."
                " Choose another auth."
            )
        known = ", ".join(sorted(Kind))
        for name in self.worker_kinds:
            if name not in list(Kind):
                raise BadSetting(f"worker_kinds: there is no kind of work {name!r}; there are: {known}.")

    def has_feature(self, name: str) -> bool:
        """Return True if a feature is on."""
        return self.features is None or name in self.features

    @property
    def kinds(self) -> frozenset[Kind] | None:
        """`worker_kinds`; None: all."""
        return frozenset(Kind(name) for name in self.worker_kinds) or None

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


_KINDS: dict[object, type[int] | type[float] | type[str]] = {int: int, int | None: int, float: float}


Value = int | float | str | tuple[str, ...] | Mapping[str, str]

MAY_BE_0 = frozenset(
    {"port", "metrics_port", "processes", "action_retry_limit", "client_retry_limit", "execution_retry_limit"}
)
"""Port 0: any free one."""

UNLIMITED = -1
MAY_BE_UNLIMITED = frozenset(
    {
        "max_resources_per_stack", "max_stacks_per_tenant", "max_snapshots_per_stack",
        "max_software_configs_per_tenant", "max_software_deployments_per_tenant",
    }
)  # fmt: skip
"""Limits that -1 switches off, as in Heat."""


def _convert(name: str, kind: object, value: object, origin: str) -> Value:
    """A value as the type of its field."""
    if kind in (tuple[str, ...], tuple[str, ...] | None):
        return _texts(name, value, origin)
    if kind == Mapping[str, str]:
        return _table(name, value, origin)
    if kind is bool:
        if str(value).lower() not in ("true", "false"):
            raise BadSetting(f"{origin}: {name} must be true or false, not {value!r}.")
        return str(value).lower() == "true"
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if value not in [*kind]:
            raise BadSetting(f"{origin}: {name} must be {' or '.join(kind)}, not {value!r}.")
        return kind(str(value))
    target = _KINDS.get(kind, str)
    if isinstance(value, bool) or not isinstance(value, str if target is str else str | int | float):
        shown = "" if name in SECRET else f", not {value!r}"
        raise BadSetting(f"{origin}: {name} must be {'text' if target is str else 'a number'}{shown}.")
    try:
        number = target(value)
    except (ValueError, OverflowError):
        raise BadSetting(f"{origin}: {name} must be a number, not {value!r}.") from None
    return number if isinstance(number, str) else _number(name, number, value, origin)


def _number(name: str, number: int | float, value: object, origin: str) -> int | float:
    """The number of a setting that was written as `value`, within its limits."""
    if isinstance(number, int) and isinstance(value, float) and number != value:
        raise BadSetting(f"{origin}: {name} must be a whole number, not {value!r}.")
    if number == UNLIMITED and name in MAY_BE_UNLIMITED:
        return number
    if not math.isfinite(number) or number < 0 or (number == 0 and name not in MAY_BE_0):
        raise BadSetting(f"{origin}: {name} must be greater than 0, not {value!r}.")
    if name in ("port", "metrics_port") and number > 65535:
        raise BadSetting(f"{origin}: a port is at most 65535, not {value!r}.")
    return number


def _texts(name: str, value: object, origin: str) -> tuple[str, ...]:
    items: object = value.split(",") if isinstance(value, str) and origin.startswith("HEATLITE_") else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        shown = "" if name in SECRET else f", not {value!r}"
        raise BadSetting(f"{origin}: {name} must be a list of texts{shown}.")
    return tuple(item.strip() for item in items if item.strip())


def _table(name: str, value: object, origin: str) -> dict[str, str]:
    """A table of the file; numbers and truth values in it as texts."""
    if not isinstance(value, dict):
        raise BadSetting(f"{origin}: {name} must be a table: [{name}].")
    for key, item in value.items():
        if not isinstance(item, str | int | float):
            raise BadSetting(f"{origin}: {key} in [{name}] must be text, a number, true or false.")
    return {key: str(item) for key, item in value.items()}


def _read_file(path: Path) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadSetting(f"{path}: cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(f"{path}: not valid TOML: {error}.") from None


def _known(name: str, known: Sequence[str]) -> str:
    """Name the settings that a misspelt one may mean, or all."""
    import difflib

    close = difflib.get_close_matches(name, known, 1)
    return f"did you mean {close[0]}? `heatlite config show` lists all" if close else f"there are: {', '.join(known)}"


def _warn_of_readers(path: Path, given: Mapping[str, object]) -> None:
    """Warn if users other than the owner may read secrets in a settings file."""
    found = [name for name, value in given.items() if name in SECRET or "@" in _authority(value)]
    if found and path.stat().st_mode & 0o044:
        log.warning("%s: other users may read %s in it: chmod 600 %s", path, ", ".join(sorted(found)), path)


def _authority(value: object) -> str:
    """The part of a URL that may have a user and a password."""
    return value.partition("://")[2].partition("/")[0] if isinstance(value, str) else ""


def load(
    flags: Mapping[str, str | int | float | None] | None = None,
    file: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """Settings from all four places. A flag that is None was not given.

    `file` has to exist if it is named; the one in the user's configuration folder need not.
    Raises BadSetting.
    """
    kinds = {field.name: field.type for field in fields(Settings)}
    values: dict[str, Value] = {
        "database": default_database(environ),
        "environment_dir": default_environment_dir(environ),
        **default_account_files(environ),
    }

    path = file or _folder("XDG_CONFIG_HOME", ".config", environ) / "heatlite.toml"
    if file is not None or path.exists():
        in_file = _read_file(path)
        for name, value in in_file.items():
            if name not in kinds:
                raise BadSetting(f"{path}: there is no setting {name!r}; {_known(name, sorted(kinds))}.")
            values[name] = _convert(name, kinds[name], value, str(path))
        _warn_of_readers(path, in_file)
    for name, kind in kinds.items():
        variable = f"HEATLITE_{name.upper()}"
        text = environ.get(variable)
        if kind == Mapping[str, str]:
            prefix = f"{variable}_"
            given = {key[len(prefix) :].lower(): value for key, value in environ.items() if key.startswith(prefix)}
            table = values.get(name, {})
            assert isinstance(table, Mapping)
            values[name] = {**table, **given}
        elif text:
            values[name] = _convert(name, kind, text, variable)
    for name, flag in (flags or {}).items():
        if flag is not None:
            values[name] = _convert(name, kinds[name], flag, f"--{name.replace('_', '-')}")
    return Settings(**values)  # type: ignore[arg-type]  # each value has just been made the type of its field


def origins(
    flags: Mapping[str, str | int | float | None], file: Path | None, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the origin of each setting: flag, environment, the file, or default.

    Raises BadSetting.
    """
    path = file or _folder("XDG_CONFIG_HOME", ".config", environ) / "heatlite.toml"
    in_file = _read_file(path) if file is not None or path.exists() else {}

    def origin(name: str) -> str:
        if flags.get(name) is not None:
            return "flag"
        if environ.get(f"HEATLITE_{name.upper()}"):
            return "environment"
        return str(path) if name in in_file else "default"

    return {name: origin(name) for name in Settings.__struct_fields__}


OTHER_VARIABLES = ("HEATLITE_ENDPOINT", "HEATLITE_PROJECT", "HEATLITE_CONTEXT", "HEATLITE_CACERT")
"""Variables of the command line that are no settings of a server."""

_FOREIGN = ("HEATLITE_TEST_", "HEATLITE_AGENT_", "HEATLITE_CORPUS", "HEATLITE_HEAT_SCHEMAS")
"""Beginnings of variables of the tests and of the agent."""


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str | None]:
    """Return unknown ``HEATLITE_…`` variables, each with a similar setting or None."""
    prefix = "HEATLITE_"
    known = [name.upper() for name in Settings.__struct_fields__]
    known += [name.removeprefix(prefix) for name in OTHER_VARIABLES]
    tables = tuple(f"HEATLITE_{field.name.upper()}_" for field in fields(Settings) if field.type == Mapping[str, str])
    out: dict[str, str | None] = {}
    for variable in sorted(environ):
        name = variable.removeprefix(prefix)
        if variable.startswith(prefix) and name not in known and not variable.startswith((*tables, *_FOREIGN)):
            import difflib

            close = difflib.get_close_matches(name, known, 1)
            out[variable] = prefix + close[0] if close else None
    return out
