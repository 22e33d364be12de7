"""What is known of no stack: versions, resource types, template functions, validation, the server itself."""

from http import HTTPStatus

from falcon import MEDIA_TEXT, Response

import heatlite
from heatlite.api import bodies, query, views
from heatlite.api.handlers.handler import Handler
from heatlite.api.request import Request
from heatlite.core.context import TYPE
from heatlite.core.errors import HTTPBadRequest, NotFound, StackValidationFailed
from heatlite.core.meter import Meter
from heatlite.template import dialects
from heatlite.template.review import to_dict


class Versions:
    """The version document: nobody needs a project to see it."""

    def on_get(self, req: Request, resp: Response) -> None:
        """At the root, where there is a choice to make (of one)."""
        self.on_get_one(req, resp)
        resp.status = HTTPStatus.MULTIPLE_CHOICES

    def on_get_one(self, req: Request, resp: Response) -> None:
        """At the version's own URL."""
        links = [views.link("self", f"{req.base}/v1/")]
        resp.media = {"versions": [{"id": "v1.0", "status": "CURRENT", "links": links}]}


class Health:
    """/healthcheck."""

    def on_get(self, req: Request, resp: Response) -> None:
        """Whoever gets this has reached a server that answers."""
        resp.content_type = MEDIA_TEXT
        resp.text = "OK"


class Metrics:
    """/metrics, where the operator has asked for it."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def on_get(self, req: Request, resp: Response) -> None:
        """For whoever watches: nobody needs a project to see them."""
        resp.content_type = "text/plain; version=0.0.4; charset=utf-8"
        resp.data = self._meter.text()


class Validate(Handler):
    """/validate."""

    def on_post(self, req: Request, resp: Response) -> None:
        """Check a template without making anything: the first fault is raised, or with `all_errors` all are listed."""
        show_nested = query.flag(req, "show_nested")
        ignored = query.words(req, "ignore_errors")
        for code in ignored:
            if code != "99001":
                raise HTTPBadRequest(f"Invalid codes in ignore_errors : ['{code}']")
        request = bodies.validate(req)
        if query.flag(req, "all_errors"):
            resp.media = {"problems": [to_dict(problem) for problem in self.stacks.review(req.caller, request)]}
            return
        try:
            resp.media = self.stacks.validate(req.caller, request, show_nested, bool(ignored))
        except StackValidationFailed as error:
            raise HTTPBadRequest(error.message, error.problems) from error  # Heat's name for it on this route alone


class ResourceTypes(Handler):
    """/resource_types and below."""

    def on_get(self, req: Request, resp: Response) -> None:
        """The types there are."""
        name, status, version = (query.text(req, key) for key in ("name", "support_status", "version"))
        described = query.flag(req, "with_description")
        names = self.offer.listed(req.caller, self.types.listing(name, status, version))
        resp.media = {"resource_types": self.types.described(names) if described else names}

    def on_get_one(self, req: Request, resp: Response, type_name: str) -> None:
        """One type: its properties and attributes."""
        req.require(TYPE + type_name)
        resp.media = self.types.describe(type_name, query.flag(req, "with_description"))

    def on_get_template(self, req: Request, resp: Response, type_name: str) -> None:
        """A template around one resource of the type."""
        language = query.text(req, "template_type") or "cfn"
        if language not in ("cfn", "hot"):
            raise HTTPBadRequest(f"Invalid template type {language}, acceptable values are: cfn, hot.")
        req.require(TYPE + type_name)
        resp.media = self.types.skeleton(type_name, language)


class TemplateVersions:
    """/template_versions and below."""

    def on_get(self, req: Request, resp: Response) -> None:
        """The template versions there are."""
        resp.media = {"template_versions": dialects.template_versions()}

    def on_get_functions(self, req: Request, resp: Response, version: str) -> None:
        """The functions of one version."""
        with_conditions = query.flag(req, "with_condition_func")
        dialect = dialects.find_dialect(version if "." in version else f"heat_template_version.{version}")
        if dialect is None:
            raise NotFound(f"Template with version {version} not found")
        functions = dialect.describe_functions(with_conditions)
        resp.media = {"template_functions": functions}


class BuildInfo(Handler):
    """/build_info."""

    def on_get(self, req: Request, resp: Response) -> None:
        """Which heatlite this is, and where it makes resources."""
        revision = {"revision": heatlite.__version__}
        resp.media = {"api": revision, "engine": revision, "cloud": self.types.installation.cloud or None}


class Services(Handler):
    """/services."""

    def on_get(self, req: Request, resp: Response) -> None:
        """The engines, and whether they are at work."""
        now = self.clock.now()
        doing, project = self.store.actions.at_work(), req.caller.project
        known = self.store.services.list()
        resp.media = {"services": [views.service(record, doing, project, now) for record in known]}
