"""Base classes of pages, and the statement of the pages of a feature."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from falcon import Response
from msgspec import Struct

from heatlite.core.json import Json, JsonMap, as_map, as_maps
from heatlite.features.dashboard.client import ProjectApi, href, text
from heatlite.features.dashboard.site import BrowserRequest, Site, Tab, stack_home

PAGE: Final = 100

Fields: TypeAlias = Mapping[str, str]
Act: TypeAlias = Callable[[ProjectApi, Fields], Json]
"""The effect of a form of a project."""
StackAct: TypeAlias = Callable[[ProjectApi, str, Fields], object]
"""The effect of a form of a stack, whose path it is given."""


def stack_action(name: str, value: Callable[[Fields], Json] = lambda _fields: None) -> StackAct:
    """Return the effect of a form that begins an action.

    `value` makes its options of the fields.
    """
    return lambda api, stack, fields: api.send("POST", f"{stack}/actions", {name: value(fields)})


class ProjectPage(ABC):
    """A page below a project."""

    template = ""
    tab = ""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: BrowserRequest, resp: Response, project: str, error: str = "", **parts: str) -> None:
        """Show the page."""
        values = self.values(req, self._site.api(req, project), **parts)
        self._site.show(req, resp, self.template, project, error, tab=self.tab, **values)

    @abstractmethod
    def values(self, req: BrowserRequest, api: ProjectApi, **parts: str) -> Mapping[str, object]:
        """Return the values of the template."""


def page_query(req: BrowserRequest, *names: str) -> dict[str, str | int]:
    """Return the part of a query that a list of the API takes."""
    given = {name: req.get_param(name, default="") for name in (*names, "marker")}
    return {"limit": PAGE, **{name: value for name, value in given.items() if value}}


def options(asked: Mapping[str, str | int]) -> list[str]:
    """Return the options of a command line with the same filters."""
    return [part for name in sorted(asked.keys() - {"limit", "marker"}) for part in (f"--{name}", str(asked[name]))]


def following(found: JsonMap, items: list[JsonMap], key: str = "id") -> str:
    """Return the marker of the next page, or an empty text."""
    return text(items[-1].get(key)) if items and href(found.get("links"), "next") else ""


def names_of(api: ProjectApi, stack_ids: Sequence[str]) -> dict[str, str]:
    """Return ids of live stacks → names."""
    if not stack_ids:
        return {}
    found = api.send("GET", "/stacks", query={"id": sorted({*stack_ids}), "show_nested": "true"})
    return {text(one.get("id")): text(one.get("stack_name")) for one in as_maps(as_map(found).get("stacks"))}


def labels(names: Mapping[str, str]) -> dict[str, str]:
    """Return ids of nodes → unique names, sorted by name.

    Nested stacks may use the same names.
    """
    count = Counter(names.values())
    unique = {key: name if count[name] == 1 else f"{name} ({key})" for key, name in names.items()}
    return dict(sorted(unique.items(), key=lambda item: item[1]))


class StackPage(ABC):
    """A page below a stack."""

    template = ""
    part = ""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(
        self, req: BrowserRequest, resp: Response, project: str, name: str, stack_id: str, error: str = ""
    ) -> None:
        """Show the page."""
        self._show(req, resp, (project, name, stack_id), error)

    def _show(
        self, req: BrowserRequest, resp: Response, place: tuple[str, str, str], error: str = "", **more: object
    ) -> None:
        project, name, stack_id = place
        api, path = self._site.api(req, project), f"/stacks/{name}/{stack_id}"
        stack = as_map(api.get(path, resolve_outputs="False").get("stack"))
        frame = {"stack": stack, "here": stack_home(req, project, name, stack_id), "tab": "stacks", "part": self.part}
        values = {**frame, **self.values(req, api, path, stack), **more}
        self._site.show(req, resp, self.template, project, error, **values)

    @abstractmethod
    def values(self, req: BrowserRequest, api: ProjectApi, path: str, stack: JsonMap) -> Mapping[str, object]:
        """Return the values of the template."""


class Section(Struct, frozen=True):
    """Cards that a feature adds to a page of the dashboard."""

    template: str
    """Template of the cards. It has the values of the page, too."""
    values: Callable[[BrowserRequest, ProjectApi, JsonMap], Mapping[str, object]]
    """Returns the values for the action or stack of the page."""
    side: str = ""
    """Template of further cards, beside those of the page."""
    commands: Callable[[ProjectApi, JsonMap], Sequence[str]] = lambda _api, _shown: ()
    """Returns the command lines that show the same."""


class WaitingRequests(Struct, frozen=True):
    """Requests of a kind that wait for a decision."""

    items: Sequence[JsonMap]
    stacks: Sequence[str]
    """Ids of the stacks of the items."""
    notice: str
    """Says that more wait, or is empty."""
    command: str
    """The command line that lists the same."""


class DecisionKind(Struct, frozen=True):
    """A kind of request that a user approves or rejects."""

    key: str
    """Prefix of the ids in the form that decides on several."""
    template: str
    """Template of the cards. It has `kind`, this statement, and `found`, what waits."""
    waiting: Callable[[ProjectApi], WaitingRequests]
    approve: str
    """Form that approves one."""
    approve_rule: str
    """Rule of the API that the form needs."""
    reject: str
    reject_rule: str
    reject_word: str = "Reject"


class Pages(Struct, frozen=True):
    """The pages that a feature adds."""

    templates: Path
    """Folder of its templates. They extend those of the dashboard."""
    tabs: Sequence[Tab] = ()
    project: Mapping[str, type[ProjectPage]] = {}
    """By their path below the project."""
    stack: Mapping[str, tuple[str, type[StackPage]]] = {}
    """By their path below the stack, each with its word in the navigation."""
    forms: Mapping[str, Act] = {}
    """Forms of a project, by the last part of their address."""
    stack_forms: Mapping[str, StackAct] = {}
    """Those of a stack."""
    pages_of_forms: Mapping[str, str] = {}
    """Forms of a project → path of the page that has them, if it is not that of approvals."""
    after_stack_forms: Mapping[str, str] = {}
    """Forms of a stack → page that they lead to, if it is not their own."""
    decisions: Sequence[DecisionKind] = ()
    """Requests on the page of approvals."""
    of_action: Sequence[Section] = ()
    """Cards on the page of an action."""
    of_stack: Sequence[Section] = ()
    """Cards on the page of a stack, beside its resources."""
    of_health: Sequence[Section] = ()
    """Cards on the page of a stack's health."""
    done: Mapping[str, str] = {}
    """Messages after a form."""
    long_forms: Sequence[str] = ()
    """Forms with long texts, which a login must not lose."""
