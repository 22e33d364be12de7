"""Reader of the API reference (``api-ref/source/v1`` of a checkout)."""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml
from msgspec import Struct

HEADING = re.compile(r"^(?P<title>\S.*)\n(?P<line>[=-])(?P=line)+\n", re.MULTILINE)
METHOD = re.compile(r"^\.\. rest_method:: (\S+) (\S+)$", re.MULTILINE)
CODES = re.compile(r"^\.\. rest_status_code:: (success|error) status\.yaml\n\n((?: +- .*\n?)+)", re.MULTILINE)
SHOWN = re.compile(r"^\.\. literalinclude:: samples/(\S+)\.json$", re.MULTILINE)
PART = re.compile(r"^ +- part: (\S+)$", re.MULTILINE)
NAMED = re.compile(r"^ +- ([^:\s]+): (\S+)$", re.MULTILINE)


class Parameter(Struct, frozen=True):
    """A parameter, or a field of a body."""

    name: str
    place: str
    """``path``, ``query``, ``header`` or ``body``."""
    type: str
    required: bool
    description: str


class Operation(Struct, frozen=True):
    """A section of the reference with a ``rest_method``."""

    title: str
    group: str
    """Title of the page."""
    method: str
    path: str
    description: str
    codes: dict[str, dict[int, str]]
    """``success`` and ``error``: codes with their descriptions."""
    request: tuple[Parameter, ...]
    response: tuple[Parameter, ...]
    samples: tuple[str, ...]
    parts: tuple[str, ...]
    """Values of ``{part}`` in the path."""

    def sample(self, kind: str) -> str | None:
        """Return the name of the sample of a request or a response."""
        found = [name for name in self.samples if name.endswith(f"-{kind}")]
        assert len(found) <= 1, f"{self.title} shows several samples of a {kind}"
        return found[0] if found else None

    def paths(self) -> list[str]:
        """Return the paths, with each value of ``{part}``."""
        return [self.path.replace("{part}", part) for part in self.parts] or [self.path]


class Reference:
    """The pages of the reference with their parameters and codes."""

    def __init__(self, source: Path) -> None:
        """Read a folder. Raises OSError."""
        names = re.findall(r"^\.\. include:: (\S+)$", (source / "index.rst").read_text(), re.MULTILINE)
        self.pages = [(source / name).read_text() for name in names]
        self._parameters = yaml.load((source / "parameters.yaml").read_text(), yaml.CSafeLoader)
        self._codes = yaml.load((source / "status.yaml").read_text(), yaml.CSafeLoader)

    def operations(self) -> Iterator[Operation]:
        """Yield the operations in the order of the pages."""
        for page in self.pages:
            group = ""
            headings = [one for one in HEADING.finditer(page) if one["line"] == "="]
            for heading, following in zip(headings, [*headings[1:], None], strict=True):
                group = group or heading["title"]
                section = page[heading.end() : following.start() if following else None]
                method = METHOD.search(section)
                if method is not None:
                    yield self._operation(heading["title"], group, method, section)

    def _operation(self, title: str, group: str, method: re.Match[str], section: str) -> Operation:
        codes: dict[str, dict[int, str]] = {"success": {}, "error": {}}
        for kind, items in CODES.findall(section):
            for code, text in re.findall(r"- (\d+)(?:: (\S+))?", items):
                codes[kind][int(code)] = plain(self._codes[int(code)][text or "default"])
        parts = _parts(section)
        part = PART.search(section)
        end = section.find(".. rest_status_code::")
        return Operation(
            title=title,
            group=group,
            method=method[1],
            path=method[2],
            description=plain(section[method.end() : end if end >= 0 else None]),
            codes=codes,
            request=self._named(parts.get("Request", "")),
            response=self._named(parts.get("Response", "")),
            samples=tuple(SHOWN.findall(section)),
            parts=tuple(re.findall(r"``(\w+)``", self._parameters[part[1]]["description"])) if part else (),
        )

    def _named(self, text: str) -> tuple[Parameter, ...]:
        return tuple(
            Parameter(
                name,
                self._parameters[key]["in"],
                self._parameters[key]["type"],
                bool(self._parameters[key]["required"]),
                plain(self._parameters[key]["description"]),
            )
            for name, key in NAMED.findall(text)
        )


def _parts(section: str) -> dict[str, str]:
    """Return the texts below the headings of a section."""
    headings = [*HEADING.finditer(section)]
    starts = [one.start() for one in headings]
    return {
        one["title"]: section[one.end() : end]
        for one, end in zip(headings, [*starts[1:], len(section)], strict=False)
    }


def plain(text: str) -> str:
    """Return reStructuredText as CommonMark: one line for each paragraph."""
    text = re.sub(r"``([^`]*)``", r"`\1`", text.strip())
    text = re.sub(r"(?<!\*)\*([A-Z][^*\n]*)\*(?!\*)", r"_\1_", text)
    return re.sub(r"(?<=\S)\n(?=[^\s*.-])", " ", text)
