"""The template language: validation, resource types, versions and functions."""

from falcon import Response

from heatlite.api import query
from heatlite.api.request import Request
from heatlite.api.wire import stack_bodies
from heatlite.core.context import TYPE
from heatlite.core.errors import HTTPBadRequest, NotFound, StackValidationFailed
from heatlite.engine.admission.offered_types import OfferedTypes
from heatlite.engine.operations.stacks import Stacks
from heatlite.plugin.registry import Registry
from heatlite.template import dialects
from heatlite.template.checks.review import to_dict


class Validate:
    """P/validate."""

    def __init__(self, stacks: Stacks) -> None:
        self._stacks = stacks

    def on_post(self, req: Request, resp: Response) -> None:
        """Validate a template.

        Reports the first problem, or with `all_errors` every problem.
        """
        show_nested = query.flag(req, "show_nested")
        ignored = query.words(req, "ignore_errors")
        for code in ignored:
            if code != "99001":
                raise HTTPBadRequest(f"Invalid codes in ignore_errors : ['{code}']")
        request = stack_bodies.whole(req)
        if query.flag(req, "all_errors"):
            resp.media = {"problems": [to_dict(problem) for problem in self._stacks.review(req.caller, request)]}
            return
        try:
            resp.media = self._stacks.validate(req.caller, request, show_nested, bool(ignored))
        except StackValidationFailed as error:
            raise HTTPBadRequest(error.message, error.problems) from error  # Heat's name for it on this route alone


class ResourceTypes:
    """P/resource_types and below."""

    def __init__(self, types: Registry, offer: OfferedTypes) -> None:
        self._types = types
        self._offer = offer

    def on_get(self, req: Request, resp: Response) -> None:
        """List the resource types that the caller may use."""
        name, status, version = (query.text(req, key) for key in ("name", "support_status", "version"))
        described = query.flag(req, "with_description")
        names = self._offer.listed(req.caller, self._types.listing(name, status, version))
        resp.media = {"resource_types": self._types.described(names) if described else names}

    def on_get_one(self, req: Request, resp: Response, type_name: str) -> None:
        """Show a type with its properties and attributes."""
        req.require(TYPE + type_name)
        resp.media = self._types.describe(type_name, query.flag(req, "with_description"))

    def on_get_template(self, req: Request, resp: Response, type_name: str) -> None:
        """Generate a template with one resource of the type."""
        language = query.text(req, "template_type") or "cfn"
        if language not in ("cfn", "hot"):
            raise HTTPBadRequest(f"Invalid template type {language}, acceptable values are: cfn, hot.")
        req.require(TYPE + type_name)
        resp.media = self._types.skeleton(type_name, language)


class TemplateVersions:
    """P/template_versions and below."""

    def on_get(self, req: Request, resp: Response) -> None:
        """List the template versions."""
        resp.media = {"template_versions": dialects.template_versions()}

    def on_get_functions(self, req: Request, resp: Response, version: str) -> None:
        """List the functions of a version."""
        with_conditions = query.flag(req, "with_condition_func")
        dialect = dialects.find_dialect(version if "." in version else f"heat_template_version.{version}")
        if dialect is None:
            raise NotFound(f"Template with version {version} not found")
        functions = dialect.describe_functions(with_conditions)
        resp.media = {"template_functions": functions}
