"""Checks of templates by the regions that will have their stacks."""

from collections.abc import Mapping

from heatlite.core.json import JsonMap
from heatlite.plugin.ports import Regions, RegionUnavailable, refusal
from heatlite.template.environment import Environment
from heatlite.template.parameters.constraints import RemoteTemplate

MAX_TEMPLATES = 20
"""Maximum of templates that regions check for one request."""


class RemoteTemplates:
    """Sends the remote templates of one request to their regions, as Heat does.

    A region that gives no answer is asked once, and refuses nothing: the create asks it again.
    """

    def __init__(self, regions: Regions, project: str, environment: Environment, files: Mapping[str, str]) -> None:
        self._regions = regions
        self._project = project
        # The remote stack has parameters of its own.
        self._inherited: JsonMap = {"environment": {**environment.to_dict(), "parameters": {}}, "files": dict(files)}
        self._left = MAX_TEMPLATES
        self._silent: set[str] = set()

    def refusal(self, remote: RemoteTemplate) -> str:
        """Return why the region refuses the template; "" if it does not."""
        if not self._left or remote.region in self._silent:
            return ""
        self._left -= 1
        body: JsonMap = {**self._inherited, "template": remote.text}
        try:
            status, answer = self._regions.ask(
                remote.region, self._project, "POST", "/validate", body, remote.ca_cert, remote.insecure
            )
        except RegionUnavailable:
            self._silent.add(remote.region)
            return ""
        return refusal(answer) if 400 <= status < 500 else ""
