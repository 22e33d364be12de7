"""Real services from PyPI, beside the cloud of real services.

Each has a database of its own, and Keystone's tokens. What they need besides is in the cloud.
"""

import os
import signal
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import yaml

from benchmarks.ports import free_port
from heatlite.store.database.backend import Dialect
from tests.clients.installing import environment
from tests.clouds import real
from tests.clouds.serving import Serving, serving
from tests.databases import SERVERS
from tests.waiting import eventually

if TYPE_CHECKING:
    from openstack.connection import Connection

HERE = Path(__file__).parent
REDIS = os.environ.get("HEATLITE_TEST_REDIS_URL", "redis://127.0.0.1:6379/0")
BROKER = os.environ.get("HEATLITE_TEST_AMQP_URL", "amqp://guest:guest@127.0.0.1:5672//")
VERSIONED = {"image": "/v2"}
"""Paths of the API's version, for services of the cloud where the SDK does not find it behind the recorder."""
SECONDS = 600
"""Time limit for the preparation and the start of a service."""
NOT_SENT = ("host", "content-length", "connection", "accept-encoding")


@dataclass(frozen=True)
class RealService:
    """A service: packages, settings, and programs that prepare and run it."""

    packages: tuple[str, ...]
    settings: str
    prepare: tuple[str, ...]
    start: tuple[tuple[str, ...], ...]
    version: str = ""
    """Path of its API."""
    project: str = ""
    """Name of its settings below the home folder, where its middleware looks for them."""


GNOCCHI = """\
from wsgiref.simple_server import make_server
from gnocchi import service
from gnocchi.rest import app
conf = service.prepare_service(["--config-file", "{file}"])
make_server("127.0.0.1", {port}, app.load_app(conf)).serve_forever()
"""
BARBICAN = """\
from wsgiref.simple_server import make_server
from paste import deploy
app = deploy.loadapp("config:{programs}/../etc/barbican/barbican-api-paste.ini")
make_server("127.0.0.1", {port}, app).serve_forever()
"""
CREDENTIALS = """\
auth_type = password
auth_url = {auth_url}
username = {username}
password = {password}
project_name = {project_name}
user_domain_id = default
project_domain_id = default
"""
AUTH = f"[keystone_authtoken]\nwww_authenticate_uri = {{auth_url}}\n{CREDENTIALS}"


def wsgi(module: str) -> tuple[str, ...]:
    """Return the words of the program that serves the application of a module."""
    return ("python", str(HERE / "wsgi_program.py"), module, "{port}", "--config-file", "{file}")


SWIFT = f"""\
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {{port}}
workers = 0
user = {{login}}
swift_dir = {{folder}}/swift
[pipeline:main]
pipeline = catch_errors tempurl authtoken keystoneauth versioned_writes proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:tempurl]
use = egg:swift#tempurl
[filter:keystoneauth]
use = egg:swift#keystoneauth
operator_roles = admin, member
[filter:versioned_writes]
use = egg:swift#versioned_writes
allow_versioned_writes = true
[filter:authtoken]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
delay_auth_decision = true
www_authenticate_uri = {{auth_url}}
{CREDENTIALS}"""
SWIFT_BACK_ENDS = {"account": "127.0.0.2", "container": "127.0.0.3", "object": "127.0.0.4"}
SWIFT_RINGS = """\
mkdir -p {folder}/swift/devices/one
printf '[swift-hash]\nswift_hash_path_suffix = x\n' > {folder}/swift/swift.conf
while read -r kind address; do
    ring={folder}/swift/$kind.builder
    {programs}/swift-ring-builder $ring create 4 1 1
    {programs}/swift-ring-builder $ring add r1z1-$address:{port}/one 1
    {programs}/swift-ring-builder $ring rebalance
    printf '%s\n' '[DEFAULT]' "bind_ip = $address" 'bind_port = {port}' 'workers = 0' 'user = {login}' \
        'swift_dir = {folder}/swift' 'devices = {folder}/swift/devices' 'mount_check = false' \
        '[pipeline:main]' "pipeline = $kind-server" "[app:$kind-server]" "use = egg:swift#$kind" \
        > {folder}/swift/$kind.conf
done <<.
""" + "".join(f"{kind} {address}\n" for kind, address in SWIFT_BACK_ENDS.items()) + ".\n"


NEUTRON = """\
[DEFAULT]
state_path = {folder}/network
transport_url = fake:///
core_plugin = ml2
service_plugins = router,metering,vpnaas,flow_classifier,sfc,taas,l2gw
api_paste_config = {programs}/../etc/neutron/api-paste.ini
api_workers = 0
rpc_workers = 0
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
[oslo_concurrency]
lock_path = {folder}/network
[database]
connection = {database}
[ml2]
type_drivers = local,vxlan
tenant_network_types = vxlan
mechanism_drivers =
[ml2_type_vxlan]
vni_ranges = 1:2000
[sfc]
drivers = dummy
[flowclassifier]
drivers = dummy
[service_providers]
service_provider = VPN:none:neutron_drivers.Agentless:default
service_provider = L2GW:none:neutron_drivers.Deviceless:default
service_provider = TAAS:none:neutron_drivers.Untapped:default
"""
FAKES = "bios=no-bios boot=fake console=no-console deploy=fake firmware=no-firmware inspect=no-inspect management=fake"
FAKES += " network=noop power=fake raid=no-raid rescue=no-rescue storage=noop vendor=no-vendor"
IRONIC = "".join(
    f"enabled_{kind}_interfaces = {name}\ndefault_{kind}_interface = {name}\n"
    for kind, _, name in (one.partition("=") for one in FAKES.split())
)
DRIVERS = """\
mkdir -p {folder}/drivers-1.dist-info
printf '[magnum.drivers]\nnone = magnum_drivers:Machineless\n' > {folder}/drivers-1.dist-info/entry_points.txt
printf '[designate.backend]\nnone = designate_drivers:Serverless\n' >> {folder}/drivers-1.dist-info/entry_points.txt
for kind in container capsule; do
    printf "[zun.$kind.driver]\nnone = zun_drivers:Dockerless\n" >> {folder}/drivers-1.dist-info/entry_points.txt
done
printf 'Name: drivers\nVersion: 1\n' > {folder}/drivers-1.dist-info/METADATA
"""
"""Commands that make tests' drivers known as those of a package."""
DESIGNATE_POOL = """\
cat > {folder}/pools.yaml <<.
- name: default
  id: 794ccc2c-d751-44fe-b57f-8894c9f5c842
  description: ''
  attributes: {{}}
  ns_records: [{{hostname: ns.example.net., priority: 1}}]
  nameservers: [{{host: 127.0.0.3, port: {port}}}]
  targets:
  - type: none
    masters: [{{host: 127.0.0.2, port: {port}}}]
    options: {{host: 127.0.0.3, port: {port}}}
.
cp {programs}/../etc/designate/api-paste.ini {folder}
{programs}/designate-manage --config-file {file} database sync
"""
DESIGNATE_API = """\
until {programs}/designate-manage --config-file {file} pool update --file {folder}/pools.yaml; do sleep 1; done
export OS_DESIGNATE_CONFIG_DIR={folder}
exec {programs}/python """
TROVE_STORES = "{programs}/trove-manage --config-file {file} db_sync\n" + "".join(
    f"{{programs}}/trove-manage --config-file {{file}} datastore_{one}\n"
    for store, version in (("mysql", "8.0"), ("mariadb", "11.4"))
    for one in (
        f"update {store} ''", f"version_update {store} {version} {store} image '' 1", f"update {store} {version}",
    )
)  # fmt: skip
WITH_DRIVERS = ("env", f"PYTHONPATH={{folder}}:{HERE}")
ALL: Mapping[str, RealService] = {
    "metric": RealService(
        ("gnocchi[mysql,file,keystone]==4.7.1",),
        "[api]\nauth_mode = keystone\n[indexer]\nurl = {database}\n[storage]\ndriver = file\n"
        f"file_basepath = {{folder}}/metric-data\n{AUTH}",
        ("gnocchi-upgrade", "--config-file", "{file}"),
        (("python", "-c", GNOCCHI),),
        project="gnocchi",
    ),
    "alarming": RealService(
        ("aodh==23.0.0", "pymysql"),
        f"[DEFAULT]\ntransport_url = fake://\n[database]\nconnection = {{database}}\n{AUTH}"
        f"[service_credentials]\nregion_name = {{region}}\ninterface = public\n{CREDENTIALS}",
        ("aodh-dbsync", "--config-file", "{file}"),
        (("aodh-api", "--host", "127.0.0.1", "--port", "{port}", "--", "--config-file", "{file}"),),
        "/v2",
        project="aodh",
    ),
    "messaging": RealService(
        ("zaqar==23.0.1", "redis"),
        "[DEFAULT]\npooling = false\nunreliable = true\nadmin_mode = true\nauth_strategy = keystone\n"
        "[drivers]\ntransport = wsgi\nmessage_store = redis\nmanagement_store = redis\n"
        "[drivers:message_store:redis]\nuri = {redis}\n[drivers:management_store:redis]\nuri = {redis}\n"
        "[drivers:transport:wsgi]\nbind = 127.0.0.1\nport = {port}\n[signed_url]\nsecret_key = not secret\n"
        f"[trustee]\n{CREDENTIALS}{AUTH}",
        ("true",),
        (("zaqar-server", "--config-file", "{file}"),),
        "/v2",
    ),
    "object_store": RealService(
        ("swift==2.38.3", "keystonemiddleware==13.0.1"),
        SWIFT,
        ("sh", "-ec", SWIFT_RINGS),
        (
            *((f"swift-{kind}-server", f"{{folder}}/swift/{kind}.conf") for kind in SWIFT_BACK_ENDS),
            ("swift-proxy-server", "{file}"),
        ),
        "/v1",
    ),
    "workflow": RealService(
        ("mistral==23.0.0", "pymysql"),
        "[DEFAULT]\ntransport_url = {broker}\n[oslo_messaging_rabbit]\namqp_auto_delete = true\n"
        "[database]\nconnection = {database}\n"
        f"[api]\nhost = 127.0.0.1\nport = {{port}}\n{AUTH}",
        ("mistral-db-manage", "--config-file", "{file}", "upgrade", "head"),
        # Together they would use one connection to the database at once, which each has from before its fork.
        tuple(("mistral-server", "--config-file", "{file}", "--server", one) for one in ("api", "engine", "executor")),
        "/v2",
    ),
    "network": RealService(
        (
            "neutron==29.0.0", "neutron-vpnaas==29.0.0", "networking-sfc==23.0.0", "tap-as-a-service==18.0.0",
            "networking-l2gw==22.0.0", "pymysql",
        ),
        NEUTRON + AUTH,
        ("neutron-db-manage", "--config-file", "{file}", "upgrade", "heads"),
        (wsgi("neutron.wsgi.api"),),
    ),
    "baremetal": RealService(
        ("ironic==39.0.0", "pymysql"),
        "[DEFAULT]\nauth_strategy = keystone\ntransport_url = fake://\nrpc_transport = none\n"
        f"enabled_hardware_types = fake-hardware\n{IRONIC}[api]\nhost_ip = 127.0.0.1\nport = {{port}}\n"
        f"[database]\nconnection = {{database}}\n[deploy]\nhttp_root = {{folder}}\n{AUTH}"
        f"[service_catalog]\n{CREDENTIALS}",
        ("ironic-dbsync", "--config-file", "{file}", "upgrade"),
        (("ironic", "--config-file", "{file}"),),
    ),
    "shared_file_system": RealService(
        ("manila==23.0.1", "pymysql", "ddt"),
        "[DEFAULT]\ntransport_url = {broker}\nstate_path = {folder}\nauth_strategy = keystone\n"
        "api_paste_config = {programs}/../etc/manila/api-paste.ini\nenabled_share_backends = dummy\n"
        "enabled_share_protocols = NFS\nrootwrap_config = {programs}/../etc/manila/rootwrap.conf\n"
        "[dummy]\nshare_driver = manila.tests.share.drivers.dummy.DummyDriver\nshare_backend_name = dummy\n"
        "driver_handles_share_servers = false\ndummy_driver_driver_methods_delays =\n"
        "[oslo_messaging_rabbit]\namqp_auto_delete = true\n[oslo_concurrency]\nlock_path = {folder}\n"
        f"[database]\nconnection = {{database}}\n{AUTH}",
        ("manila-manage", "--config-file", "{file}", "db", "sync"),
        (*((f"manila-{one}", "--config-file", "{file}") for one in ("share", "scheduler")), wsgi("manila.wsgi.api")),
        "/v2",
    ),
    "key_manager": RealService(
        ("barbican==23.0.0", "pymysql"),
        "[DEFAULT]\ntransport_url = fake://\nhost_href = {url}/key_manager\n"
        "[secretstore]\nenabled_secretstore_plugins = store_crypto\n[crypto]\n"
        "enabled_crypto_plugins = simple_crypto\n[simple_crypto_plugin]\n"
        "kek = YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=\n[queue]\nenable = false\n"
        f"[database]\nconnection = {{database}}\n{AUTH}",
        ("barbican-manage", "--config-file", "{file}", "db", "upgrade"),
        (("python", "-c", BARBICAN),),
        project="barbican",
    ),
    "load_balancer": RealService(
        ("octavia==19.0.0", "pymysql"),
        "[DEFAULT]\ntransport_url = {broker}\n[api_settings]\nbind_host = 127.0.0.1\nbind_port = {port}\n"
        "auth_strategy = keystone\napi_base_uri = {url}/load_balancer\nallow_tls_terminated_listeners = true\n"
        "[database]\nconnection = {database}\n[health_manager]\nheartbeat_key = insecure\n"
        "[controller_worker]\namphora_driver = amphora_noop_driver\ncompute_driver = compute_noop_driver\n"
        "network_driver = network_noop_driver\nimage_driver = image_noop_driver\n"
        "volume_driver = volume_noop_driver\n"
        "amp_boot_network_list = net\namp_flavor_id = 1\namp_secgroup_list = s\nworkers = 1\n"
        "client_ca = {folder}/ca.pem\n"
        "[oslo_messaging]\ntopic = octavia_prov\n[oslo_messaging_rabbit]\namqp_auto_delete = true\n"
        "[certificates]\ncert_generator = local_cert_generator\nca_certificate = {folder}/ca.pem\n"
        "ca_private_key = {folder}/ca.key\nca_private_key_passphrase = swordfish\n"
        f"[networking]\n{CREDENTIALS}[service_auth]\n{CREDENTIALS}{AUTH}",
        (
            "sh", "-ec",
            "{programs}/octavia-db-manage --config-file {file} upgrade head\n"
            "openssl req -x509 -newkey rsa:2048 -passout pass:swordfish -subj /CN=ca -days 99"
            " -keyout {folder}/ca.key -out {folder}/ca.pem",
        ),
        (("octavia-api", "--config-file", "{file}"), ("octavia-worker", "--config-file", "{file}")),
        "/v2.0",
    ),
    "container": RealService(
        ("zun==18.0.0", "pymysql"),
        "[DEFAULT]\ntransport_url = {broker}\nhost = {region}\ncontainer_driver = none\ncapsule_driver = none\n"
        "state_path = {folder}\n[oslo_messaging_rabbit]\namqp_auto_delete = true\n"
        "[api]\nhost_ip = 127.0.0.1\nport = {port}\nworkers = 1\n"
        "api_paste_config = {programs}/../etc/zun/api-paste.ini\n[oslo_concurrency]\nlock_path = {folder}\n"
        f"[database]\nconnection = {{database}}\n[keystone_auth]\n{CREDENTIALS}{AUTH}",
        ("sh", "-ec", DRIVERS + "{programs}/zun-db-manage --config-file {file} upgrade"),
        tuple((*WITH_DRIVERS, f"{{programs}}/zun-{one}", "--config-file", "{file}") for one in ("compute", "api")),
        "/v1",
    ),
    "container_infra": RealService(
        ("magnum==23.0.0", "pymysql"),
        "[DEFAULT]\ntransport_url = {broker}\n[oslo_messaging_rabbit]\namqp_auto_delete = true\n"
        "[api]\nhost = 127.0.0.1\nport = {port}\nworkers = 1\n"
        "api_paste_config = {programs}/../etc/magnum/api-paste.ini\n[conductor]\nworkers = 1\n"
        "[certificates]\ncert_manager_type = x509keypair\n[oslo_concurrency]\nlock_path = {folder}\n"
        "[glance_client]\nregion_name = RegionOne\n[nova_client]\nregion_name = RegionOne\n"
        "[neutron_client]\nregion_name = RegionOne\n"
        f"[database]\nconnection = {{database}}\n[keystone_auth]\n{CREDENTIALS}{AUTH}",
        ("sh", "-ec", DRIVERS + "{programs}/magnum-db-manage --config-file {file} upgrade head"),
        tuple((*WITH_DRIVERS, f"{{programs}}/magnum-{one}", "--config-file", "{file}") for one in ("conductor", "api")),
        "/v1",
    ),
    "database": RealService(
        ("trove==26.0.0", "pymysql"),
        "[DEFAULT]\ntransport_url = {broker}\ntaskmanager_manager = trove_drivers.Machineless\n"
        + "".join(
            f"remote_{one}_client = trove_drivers.{name}\n"
            for one, name in (("guest", "Guest"), ("nova", "compute"), ("glance", "Images"))
        )
        + "bind_host = 127.0.0.1\nbind_port = {port}\ntrove_api_workers = 1\nhttp_get_rate = 9999\n"
        "api_paste_config = {programs}/../etc/trove/api-paste.ini\nagent_heartbeat_expiry = 9999\n"
        "[oslo_messaging_rabbit]\namqp_auto_delete = true\n[oslo_concurrency]\nlock_path = {folder}\n"
        "[mariadb]\nmin_cluster_member_count = 1\n"
        f"[database]\nconnection = {{database}}\n[service_credentials]\nregion_name = RegionOne\n{CREDENTIALS}{AUTH}",
        (*WITH_DRIVERS, "sh", "-ec", TROVE_STORES),
        tuple(
            (*WITH_DRIVERS, f"{{programs}}/trove-{one}", "--config-file", "{file}") for one in ("taskmanager", "api")
        ),
        "/v1.0/{project}",
    ),
    # A second process of the cloud's Keystone, without a cache: a cache in memory shares its objects with Keystone.
    # Keystone changes a new EC2 credential there, and then answers 500 to its reads and deletions.
    "identity": RealService(
        ("keystone==27.1.0", "pymysql"),
        "[cache]\nenabled = false\n",
        ("true",),
        ((
            "env", f"OS_KEYSTONE_CONFIG_FILES={real.HOME}/etc/keystone.conf;{{file}}",
            "{programs}/python", str(HERE / "wsgi_program.py"), "keystone.wsgi.api", "{port}",
        ),),
    ),
    "dns": RealService(
        ("designate==23.0.0", "pymysql"),
        "[DEFAULT]\ntransport_url = {broker}\nrpc_response_timeout = 9\nstate_path = {folder}\n"
        "[oslo_messaging_rabbit]\namqp_auto_delete = true\n"
        "[service:api]\nenable_api_v2 = true\napi_base_uri = {url}/dns\n"
        "[service:central]\nworkers = 1\n[service:mdns]\nworkers = 1\nlisten = 127.0.0.2:{port}\n"
        "[service:worker]\nworkers = 1\npoll_delay = 1\npoll_retry_interval = 1\n"
        "[service:producer]\nworkers = 1\n[producer_task:increment_serial]\ninterval = 1\n[oslo_concurrency]\n"
        f"lock_path = {{folder}}\n[storage:sqlalchemy]\nconnection = {{database}}\n{AUTH}",
        ("sh", "-ec", DRIVERS + DESIGNATE_POOL),
        (
            *((f"designate-{one}", "--config-file", "{file}") for one in ("central", "mdns", "producer")),
            (*WITH_DRIVERS, "{programs}/designate-worker", "--config-file", "{file}"),
            (*WITH_DRIVERS, "sh", "-c", DESIGNATE_API + " ".join(wsgi("designate.wsgi.api")[1:])),
        ),
        "/v2",
        project="designate",
    ),
    "orchestration": RealService(
        ("openstack-heat==27.0.1", "pymysql"),
        "[DEFAULT]\ntransport_url = fake://\nrpc_response_timeout = 600\nenable_stack_adopt = true\n"
        "auth_encryption_key = 0123456789abcdef0123456789abcdef\n"
        "environment_dir = {programs}/../etc/heat/environment.d\ntemplate_dir = {programs}/../etc/heat/templates\n"
        "heat_metadata_server_url = http://127.0.0.1:{port}\n"
        "heat_waitcondition_server_url = http://127.0.0.1:{port}/v1/waitcondition\n"
        "[database]\nconnection = {database}\n[oslo_concurrency]\nlock_path = {folder}\n"
        "[paste_deploy]\napi_paste_config = {programs}/../etc/heat/api-paste.ini\n{access}",
        ("heat-manage", "--config-file", "{file}", "db_sync"),
        (("python", str(HERE / "heat_program.py"), "{port}", "--config-file", "{file}"),),
    ),
    "reservation": RealService(
        ("blazar==18.0.0", "pymysql"),
        "[DEFAULT]\ntransport_url = {broker}\nos_admin_username = {username}\nos_admin_password = {password}\n"
        "os_admin_project_name = {project_name}\nos_region_name = RegionOne\n"
        "[oslo_messaging_rabbit]\namqp_auto_delete = true\n"
        "[manager]\nplugins = physical.host.plugin,virtual.instance.plugin\n"
        "[nova]\naggregate_freepool_name = {region}\n"
        f"[oslo_concurrency]\nlock_path = {{folder}}\n[database]\nconnection = {{database}}\n{AUTH}",
        ("blazar-db-manage", "--config-file", "{file}", "upgrade", "head"),
        (
            ("blazar-manager", "--config-file", "{file}"),
            ("env", "OS_BLAZAR_CONFIG_DIR={folder}", "{programs}/python", *wsgi("blazar.wsgi.api")[1:]),
        ),
        "/v1",
        project="blazar",
    ),
}  # fmt: skip


@contextmanager
def running(name: str, folder: Path, fields: Mapping[str, str]) -> Iterator[str]:
    """The URL of a service, which runs during the context."""
    service, port = ALL[name], free_port()
    programs = environment(f"service-{name}", *service.packages)
    with ExitStack() as undo:
        url = undo.enter_context(SERVERS[Dialect.MARIADB].database(f"{name}_{os.getpid()}"))
        database = urlsplit(url)._replace(scheme="mysql+pymysql", query="charset=utf8").geturl()
        file = folder / f"{service.project or name}.conf"
        places = {"database": database, "redis": REDIS, "broker": BROKER.replace("amqp://", "rabbit://")}
        places |= {"login": getuser(), "folder": str(folder), "file": str(file), "programs": str(programs)}
        values = {**fields, **places, "port": port}
        file.write_text(service.settings.format_map(values))
        log = undo.enter_context((folder / f"{name}.log").open("w"))
        common: Any = {"stdout": log, "stderr": log, "env": {**os.environ, "HOME": str(folder)}}
        done = subprocess.run(_words(programs, service.prepare, values), timeout=SECONDS, check=False, **common)
        assert done.returncode == 0, Path(log.name).read_text()[-4000:]
        started = []
        for words in service.start:
            process = subprocess.Popen(_words(programs, words, values), start_new_session=True, **common)
            undo.callback(process.wait)
            undo.callback(os.killpg, process.pid, signal.SIGKILL)  # with what it has forked
            started.append(process)
        ended = lambda: any(one.poll() is not None for one in started)  # noqa: E731 - read twice
        eventually(lambda: _listens(port) or ended(), f"{name} answers", SECONDS)
        assert not ended(), Path(log.name).read_text()[-4000:]
        yield f"http://127.0.0.1:{port}"


def _words(programs: Path, words: tuple[str, ...], values: Mapping[str, object]) -> list[str]:
    first, *others = words
    program = programs / first
    return [str(program) if program.exists() else first, *(word.format_map(values) for word in others)]


def _listens(port: int) -> bool:
    with socket.socket() as one:
        one.settimeout(2)
        return one.connect_ex(("127.0.0.1", port)) == 0


class Recorder:
    """Passes requests on to services, and keeps what was asked and answered."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self.places = places
        """First part of a path → URL of the service."""
        self.asked: list[Any] = []
        """Each request that may change something, as ``{"METHOD /path?query": body}``."""
        self.exchanges: list[dict[str, Any]] = []

    def answer(self, method: str, target: str, sent: bytes, headers: Mapping[str, str]) -> tuple[int, bytes, str]:
        """HTTP status, body and its media type."""
        service, _, path = target.lstrip("/").partition("/")
        place, own = self.places[service], f"http://{headers['Host']}/{service}"
        status, said, kind = ask(method, f"{place}/{path}", sent or None, headers)
        said = said.replace(place.encode(), own.encode())
        body = _content(sent)
        if method != "GET":
            self.asked.append({f"{method} {target}": body})
        exchange = {"request": f"{method} {target}", "body": body, "status": status, "answer": _content(said)}
        if exchange not in self.exchanges[-1:]:  # it was asked again until something changes
            self.exchanges.append(exchange)
        return status, said, kind


def ask(method: str, url: str, sent: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes, str]:
    """Send a request and return status, body and media type of the answer."""
    kept = {name: value for name, value in headers.items() if name.lower() not in NOT_SENT}
    request = urllib.request.Request(url, sent, kept, method=method)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            return response.status, response.read(), response.headers.get("Content-Type", "")
    except HTTPError as error:
        return error.code, error.read(), error.headers.get("Content-Type", "")


def _content(text: bytes) -> Any:
    try:
        return yaml.safe_load(text) if text[:1] in (b"{", b"[") else text.decode() or None
    except yaml.YAMLError:
        return text.decode()


@contextmanager
def recording(recorder: Recorder) -> Iterator[str]:
    """The URL where the recorder listens, during the context."""

    class Handler(Serving):
        def answer(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, said, kind = recorder.answer(self.command, self.path, sent, dict(self.headers))
            self.send(status, said, Content_Type=kind or "application/json")

    with serving(Handler, threading.Event()) as port:
        yield f"http://127.0.0.1:{port}"


@dataclass
class RealCloud:
    """A project in the cloud, with further services behind a recorder."""

    entry: dict[str, Any]
    """Of clouds.yaml."""
    url: str
    recorder: Recorder
    token: str
    project: str
    user: str


@contextmanager
def real_cloud(folder: Path, *names: str, own: Iterable[str] = (), admin: bool = False) -> Iterator[RealCloud]:
    """The cloud with these services, found by their URLs.

    Gnocchi is in the catalog of a region. `own`: services of the cloud that are recorded as well. `admin`: the user is
    an administrator.
    """
    real.needed()
    from tests.clients.region import connection

    with ExitStack() as undo:
        clouds = undo.enter_context(real.project(folder))
        described = yaml.safe_load(clouds.read_text())["clouds"]
        own_cloud = "ours-admin" if admin else "ours"
        ours, root = connection(clouds, own_cloud), connection(real.HOME / "clouds.yaml", "fakecloud")
        undo.callback(ours.close)
        undo.callback(root.close)
        auth = described["ours"]["auth"]
        region = auth["project_name"]
        service_user = {"auth_url": auth["auth_url"], "password": described["ours-admin"]["auth"]["password"]}
        fields = {**service_user, "username": "heat", "project_name": "service", "region": region}
        catalog = ours.session.auth.get_access(ours.session).service_catalog
        recorder = Recorder({name: catalog.url_for(name).rstrip("/").removesuffix("/v3") for name in own})
        url = undo.enter_context(recording(recorder))
        for name in names:
            if name == "container":  # its host, in Placement
                undo.callback(_forget, root, region)
            place = undo.enter_context(running(name, folder, {**fields, "url": url}))
            recorder.places[name] = place
            if name == "reservation":  # its hosts that are free
                _aggregate(root, undo, region)
            if name == "metric":
                root.identity.create_region(id=region)
                undo.callback(root.identity.delete_region, region)
                announce(root, undo, region, name, place)
        paths = {**{name: VERSIONED.get(name, "") for name in own}, **{name: ALL[name].version for name in names}}
        overrides = {
            f"{name}_endpoint_override": f"{url}/{name}{path.format(project=ours.current_project_id)}"
            for name, path in paths.items()
        }
        entry = {**described[own_cloud], **overrides}
        yield RealCloud(entry, url, recorder, ours.auth_token, ours.current_project_id, ours.current_user_id)


def _aggregate(admin: "Connection", undo: ExitStack, name: str) -> None:
    compute = admin.compute
    made = compute.create_aggregate(name=name)
    undo.callback(compute.delete_aggregate, made)
    undo.callback(lambda: [compute.remove_host_from_aggregate(made, one) for one in compute.get_aggregate(made).hosts])


def _forget(admin: "Connection", name: str) -> None:
    placement = admin.placement
    for one in placement.resource_providers(name=name):
        for consumer in placement.get(f"/resource_providers/{one.id}/allocations").json()["allocations"]:
            placement.delete(f"/allocations/{consumer}")
        placement.delete_resource_provider(one)


def announce(admin: "Connection", undo: ExitStack, region: str, kind: str, url: str) -> None:
    """Put a service into the catalog of a region, until `undo` closes."""
    identity = admin.identity
    service = identity.create_service(type=kind, name=f"heatlite-{region}")
    undo.callback(identity.delete_service, service.id)
    made = identity.create_endpoint(service_id=service.id, interface="public", region_id=region, url=url)
    undo.callback(identity.delete_endpoint, made.id)
