"""Checks before a server starts: address, port, libraries, database, broker."""

import os
import socket
from functools import partial
from ipaddress import ip_address

from heatlite.administration import busy, check_keys, open_store
from heatlite.api.access.factory import create_access_control
from heatlite.core.clock import Clock
from heatlite.core.config import Auth, BadSetting, Settings
from heatlite.core.errors import Conflict
from heatlite.core.wire.why import WayOut
from heatlite.feature import active
from heatlite.store.database.engine_lock import engine_of, open_beside
from heatlite.wiring import cloud_provider, distributed, installed_types, metering, rules, rules_off, stack_domain


class NotLoopback(BadSetting):
    """Without authentication, the server listens on a loopback address only."""

    text = (
        "Refusing to listen on {host}: without authentication, only this machine may connect."
        " Use --host 127.0.0.1, or set `auth` to basic, tokens or keystone."
    )


class NotDistributed(BadSetting):
    """Separate API and workers need a database server and a broker."""

    text = (
        "`heatlite {command}` needs a database server and a broker, which it shares with other processes. {missing}"
        " `heatlite serve` needs neither."
    )


class NoPort(Conflict):
    """The address to listen on is in use or not permitted."""

    text = "Cannot listen on {host}, port {port}: {reason}. Choose another port with {setting}."
    ways = (WayOut(text="choose another port with {setting}"),)


def check_servable(settings: Settings) -> None:
    """Raise the error that would prevent a server from starting.

    Raises NotLoopback, EngineBusy, BadSetting, BadEnvironmentFile, MissingLibrary, and errors of the
    database and its keys.
    """
    if settings.auth is Auth.NONE and settings.host != "localhost" and not _is_loopback(settings.host):
        raise NotLoopback(host=settings.host)
    create_access_control(settings, Clock(), rules(settings), rules_off=partial(rules_off, settings))
    installed_types(settings)
    stack_domain(settings)
    store = open_store(settings)
    check_keys(store, warns=False)
    metering(settings, store, Clock())
    for feature in active(settings):
        feature.check(settings)
        feature.check_engine(settings)
    provider = cloud_provider(settings, store.database.path)
    engine = engine_of(settings.database)
    if store.database.path is not None and engine is None:
        os.close(open_beside(store.database.path, "engine"))  # a read-only file system can only be read
    store.close()
    if engine is not None:
        raise busy(engine, settings.database)
    if provider is not None:
        provider.begin()
    if settings.broker is not None:
        distributed().check_broker(settings.broker)
    if provider is not None:
        provider.open()


def check_distributed(settings: Settings, command: str) -> None:
    """Raise NotDistributed unless these settings suit processes on several machines.

    Raises BadSetting for metrics of an API with several processes: each counts its own requests, and a scrape reaches
    any of them.
    """
    if command == "api" and settings.metrics and settings.api_processes > 1:
        raise BadSetting(
            "metrics: with several processes at one port, any of them may answer. Set api_processes to 1, and start"
            " more of `heatlite api`, each at its own port."
        )
    if settings.database.startswith("sqlite:"):
        missing = (
            f"{settings.shown_database} is a file for one engine. Set `database` to postgresql://… or mysql://…, and"
            " run `heatlite db upgrade`."
        )
        raise NotDistributed(command=command, missing=missing)
    if settings.broker is None:
        raise NotDistributed(command=command, missing="Set `broker` to amqp://user:password@host/vhost or redis://host/0.")


def listen(settings: Settings) -> socket.socket:
    """Return a socket bound to the address. Raises NoPort."""
    bound = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
    except OSError as error:
        bound.close()
        reason = error.strerror
        raise NoPort(host=settings.host, port=settings.port, reason=reason, setting="--port") from error
    return bound


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
