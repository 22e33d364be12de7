"""Places of problems: file and line."""

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from heatlite.core.errors import Invalid, Problem
from heatlite.core.json import Json
from heatlite.template.source.loader import Path, SourceText, load


def path_of(document: Json, where: str) -> Path:
    """Return the path that `Problem.where` writes as text.

    Steps that the document lacks become the last one.
    """
    path: list[str | int] = []
    while where:
        index = re.match(r"\[(\d+)\]\.?", where)
        if isinstance(document, dict):
            steps = [name for name in document if re.match(rf"{re.escape(name)}(\.|\[|$)", where)]
            step: str | int = max(steps, key=len, default=where)  # names may have dots in them
            where, document = where[len(str(step)) :].removeprefix("."), document.get(str(step))
        elif isinstance(document, list) and index is not None and int(index[1]) < len(document):
            step = int(index[1])
            where, document = where[index.end() :], document[step]
        else:
            step, where = where, ""
        path.append(step)
    return tuple(path)


class Places:
    """The texts of a request, by the names that problems give them.

    `files` are the texts behind other names; `children` are those of them that have been read already.
    """

    def __init__(
        self,
        template: SourceText | None,
        environments: Sequence[SourceText] = (),
        files: Mapping[str, str] | None = None,
        children: Mapping[str, SourceText] | None = None,
    ) -> None:
        self._environments = environments
        self._files = files or {}
        self._sources: dict[str, SourceText | None] = {"template": template}
        for source in (template, *(children or {}).values(), *environments):
            if source is not None:
                self._sources[source.name] = source
        self._sources.update(children or {})

    def located(self, problem: Problem) -> Problem:
        """With the file's name; with line and column from 1 where its text is at hand."""
        source = self._source(problem)
        if source is None:
            return problem
        line, column = problem.line, problem.column
        if not line and source.text:
            line, column = source.locate(problem.path)
            line, column = line or 1, column or 1
        return replace(problem, source=source.name, line=line, column=column)

    def all(self, problems: Iterable[Problem]) -> list[Problem]:
        return [self.located(problem) for problem in problems]

    def _source(self, problem: Problem) -> SourceText | None:
        name = problem.source
        if name == "environment":
            return self._environment(problem)
        if name not in self._sources:
            self._sources[name] = self._read(name)
        return self._sources[name]

    def _environment(self, problem: Problem) -> SourceText | None:
        """The last one that says what the problem is about."""
        for source in reversed(self._environments):
            section = source.data.get(str(problem.path[0])) if problem.path else None
            if isinstance(section, dict) and (len(problem.path) < 2 or problem.path[1] in section):
                return source
        return None

    def _read(self, name: str) -> SourceText | None:
        try:
            return load(self._files[name], name) if name in self._files else None
        except Invalid:
            return None
