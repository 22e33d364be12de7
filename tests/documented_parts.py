"""Names that libraries document: the product uses no others."""

DOCUMENTED: dict[str, tuple[str, ...]] = {
    # https://kislyuk.github.io/argcomplete/#api-documentation
    "argcomplete": ("argcomplete.autocomplete", "argcomplete.shellcode"),
    "bcrypt": ("bcrypt",),  # https://pypi.org/project/bcrypt
    # https://docs.celeryq.dev/en/stable/userguide: application, extending, signals, and the remote control of workers
    "celery": (
        "celery.Celery",
        "celery.bootsteps",
        "celery.exceptions",
        "celery.signals",
        "celery.worker.control.control_command",
        "celery.worker.control.inspect_command",
    ),
    "cel_expr_python": ("cel_expr_python.cel",),  # https://pypi.org/project/cel-expr-python
    "cliff": ("cliff.columns.FormattableColumn",),  # https://docs.openstack.org/cliff/latest/user/list_commands.html
    "cronsim": ("cronsim.CronSim", "cronsim.CronSimError"),  # https://pypi.org/project/cronsim
    "cryptography": ("cryptography.fernet",),  # https://cryptography.io/en/latest/fernet
    "dramatiq": ("dramatiq",),  # https://dramatiq.io/reference.html
    # https://falcon.readthedocs.io/en/stable/api
    "falcon": (
        *(f"falcon.{name}" for name in ("App", "Request", "RequestOptions", "Response")),
        *(f"falcon.{name}" for name in ("HTTPBadRequest", "HTTPError", "HTTPLengthRequired", "HTTPMethodNotAllowed")),
        *(f"falcon.{name}" for name in ("HTTPNotFound", "HTTP_400", "HTTP_503", "HTTPServiceUnavailable")),
        *(f"falcon.MEDIA_{kind}" for kind in ("HTML", "JSON", "MULTIPART", "TEXT", "URLENCODED", "XML")),
        "falcon.constants.COMBINED_METHODS",
        "falcon.media",
        "falcon.routing.CompiledRouter",
        "falcon.routing.map_http_methods",
        "falcon.testing",
        "falcon.uri",
    ),
    # https://docs.gunicorn.org/en/stable/custom.html; settings.html: logger_class
    "gunicorn": ("gunicorn.app.base.BaseApplication", "gunicorn.glogging.Logger"),
    "huey": ("huey.RedisHuey",),  # https://huey.readthedocs.io/en/latest/api.html
    "jinja2": ("jinja2",),  # https://jinja.palletsprojects.com/en/stable/api
    "jsonschema": ("jsonschema",),  # https://python-jsonschema.readthedocs.io/en/stable/api
    # https://docs.openstack.org/keystoneauth/latest/api
    "keystoneauth1": (
        "keystoneauth1.exceptions",
        "keystoneauth1.identity",
        "keystoneauth1.loading",
        "keystoneauth1.session",
    ),
    "keystonemiddleware": ("keystonemiddleware.auth_token",),  # https://docs.openstack.org/keystonemiddleware/latest/api
    # https://docs.celeryq.dev/projects/kombu/en/stable/reference
    "kombu": ("kombu.Connection", "kombu.Queue", "kombu.exceptions"),
    "msgspec": ("msgspec",),  # https://jcristharif.com/msgspec/api.html
    # https://docs.openstack.org/openstacksdk/latest/user
    "openstack": (
        "openstack.compute.v2.aggregate.Aggregate",
        "openstack.compute.v2.server.Server",
        "openstack.config.cloud_region.CloudRegion",
        "openstack.config.get_cloud_region",
        "openstack.connect",
        "openstack.connection.Connection",
        "openstack.exceptions",
        "openstack.image.v2.image.Image",
        "openstack.proxy.Proxy",
        "openstack.resource.Resource",
    ),
    "osc_lib": ("osc_lib.command.command", "osc_lib.exceptions"),  # https://docs.openstack.org/osc-lib/latest/reference
    "oslo_config": ("oslo_config.cfg",),  # https://docs.openstack.org/oslo.config/latest/reference
    "oslo_policy": ("oslo_policy.policy",),  # https://docs.openstack.org/oslo.policy/latest/reference
    "peewee": ("peewee",),  # https://docs.peewee-orm.com/en/latest/peewee/api.html
    "playhouse": ("playhouse.db_url", "playhouse.migrate", "playhouse.migrations"),  # …/peewee/playhouse.html
    "playwright": ("playwright.sync_api",),  # playwright.dev: Playwright library for Python
    "procrastinate": ("procrastinate",),  # https://procrastinate.readthedocs.io/en/stable/reference.html
    # https://prometheus.github.io/client_python: collector, exporting, multiprocess
    "prometheus_client": (
        *(f"prometheus_client.{name}" for name in ("CollectorRegistry", "Counter", "Histogram", "Metric")),
        *(f"prometheus_client.{name}" for name in ("ProcessCollector", "generate_latest", "make_wsgi_app")),
        "prometheus_client.core.GaugeMetricFamily",
        "prometheus_client.multiprocess.MultiProcessCollector",
    ),
    # psycopg.org: psycopg 3, API
    "psycopg": (
        *(f"psycopg.{name}" for name in ("Connection", "connect", "errors")),
        *(f"psycopg.{name}" for name in ("DataError", "DatabaseError", "Error", "OperationalError")),
        "psycopg.adapt.Transformer",
        *(f"psycopg.pq.{name}" for name in ("ConnStatus", "DiagnosticField", "ExecStatus", "PGresult")),
        "psycopg.pq.error_message",
    ),
    # https://pymysql.readthedocs.io/en/latest/modules, https://peps.python.org/pep-0249; README: constants
    "pymysql": ("pymysql.MySQLError", "pymysql.connect", "pymysql.constants", "pymysql.cursors"),
    "re2": ("re2",),  # https://pypi.org/project/google-re2
    "requests": ("requests",),  # https://requests.readthedocs.io/en/latest/api
    "rich": ("rich",),  # https://rich.readthedocs.io/en/stable/reference.html
    # https://pyyaml.org/wiki/PyYAMLDocumentation
    "yaml": (
        *(f"yaml.{name}" for name in ("CSafeLoader", "SafeLoader=", "load", "safe_dump", "safe_load")),
        *(f"yaml.{name}" for name in ("MarkedYAMLError", "ScalarNode", "YAMLError", "Event", "NodeEvent")),
        *(f"yaml.{name}" for name in ("MappingNode", "SequenceNode", "SafeDumper", "compose", "dump")),
        *(f"yaml.{name}Event" for name in ("CollectionEnd", "CollectionStart", "DocumentStart", "MappingStart")),
        *(f"yaml.{name}Event" for name in ("Alias", "Scalar", "StreamEnd")),
    ),
    # https://yaql.readthedocs.io/en/latest: getting started, embedding
    "yaql": (
        "yaql.create_context",
        "yaql.language.contexts",
        "yaql.language.conventions",
        "yaql.language.factory",
        "yaql.language.specs",
        "yaql.language.yaqltypes",
    ),
}
"""Library → names that it documents, with all that is in them, except with ``=``. The page is in the comment."""

MEMBERS: dict[str, frozenset[str]] = {
    "argparse.HelpFormatter": frozenset(),  # "Only the name of this class is considered a public API"
    "celery.bootsteps.StartStopStep": frozenset({"close", "start", "stop", "terminate"}),
    "celery.bootsteps.Step": frozenset({"include_if", "requires"}),
    "gunicorn.app.base.BaseApplication": frozenset({"cfg", "load", "load_config", "run"}),
}
"""Class → the members that its library documents, of one that has others."""

STANDARD = frozenset(
    {
        "importlib.metadata.EntryPoint",
        "importlib.metadata.EntryPoints",
        "logging._srcfile",  # https://docs.python.org/3/howto/logging.html#optimization, with the next two
        "logging.logMultiprocessing",
        "logging.logThreads",
        "os._exit",
    }
)
"""Documented names of the standard library with an underscore, or missing in `__all__`."""

UNDERSCORES = frozenset(
    {
        "_asdict",  # of a named tuple, as `_replace`
        "_meta",  # https://docs.peewee-orm.com/en/latest/peewee/models.html#model-options-and-table-metadata
        "_replace",
    }
)
"""Documented members with an underscore."""

_SCALARS = "the documented functions read documents, and one scalar by them takes 50 times as long"
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("heatlite/clients/connection.py", "_body"): "nothing documented tells an attribute that is missing from a null",
    ("heatlite/clients/connection.py", "_header"): "as `_body`",
    (
        "heatlite/store/database/postgresql/connection.py",
        "psycopg.pq.abc.PGresult",
    ): "to type checkers, the documented `psycopg.pq.PGresult` is a variable",
    **{
        (f"heatlite/{path}", f"yaml.{name}"): _SCALARS
        for path in ("template/checks/warnings.py", "template/source/loader.py")
        for name in ("SafeLoader.yaml_implicit_resolvers", "constructor.SafeConstructor")
    },
}
"""File and name → the reason why the product cannot do without."""
