"""Addresses of endpoints of rules."""

import ipaddress
from contextlib import suppress
from urllib.parse import urlsplit

from heatlite.engine.outbound.egress import EgressHosts
from heatlite.features.rules.feature import RulesSettings


def hosts_of(settings: RulesSettings) -> EgressHosts:
    """Return the hosts that endpoints may have."""
    return EgressHosts("rule_hosts", settings.rule_hosts)


def fault_of(url: str, hosts: EgressHosts | None) -> str | None:
    """Return what is wrong with the address of an endpoint.

    Without `hosts` its host is not looked up.
    """
    try:
        parts = urlsplit(url)
        host, is_plain = parts.hostname, parts.scheme == "http"
        has_form = parts.port != 0 and url.isascii() and url.isprintable() and " " not in url
    except ValueError:
        host, is_plain, has_form = None, False, False
    if not has_form or not host or parts.scheme not in ("http", "https") or parts.username is not None:
        return "it is no address https://HOST/PATH without a user"
    if is_plain and not _is_this_machine(host):
        return "it has to begin with https, unless it is on this machine"
    if hosts is not None and not hosts.lists(url):
        return f'the setting {hosts.setting} does not list "{host}"'
    return None


def _is_this_machine(host: str) -> bool:
    with suppress(ValueError):  # a name
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
