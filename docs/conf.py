"""Build of the site: ``sphinx-build -W -b html docs <out>``. Needs ``requirements/docs.txt``, and not the network."""

import re

from sphinx.application import Sphinx

project = "heatlite"
copyright = "2026, the heatlite authors"  # noqa: A001 - the name is Sphinx's
language = "en"

extensions = ["myst_parser"]
exclude_patterns = ["man", "completion"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = "heatlite"
html_copy_source = False
html_show_sphinx = False

NO_PAGE = re.compile(r"\[([^\]]+)\]\((?:[^):]*/|(?:\.\./)+[A-Z]+\.md[^)]*)\)")
"""A link to a folder or a document at the top of the repository: the site has no page for it."""


def unlink(_app: Sphinx, _page: str, content: list[str]) -> None:
    """Replace links that lead nowhere on the site by their text."""
    content[0] = NO_PAGE.sub(r"\1", content[0])


def setup(app: Sphinx) -> None:
    """Register the handler, as Sphinx demands."""
    app.connect("source-read", unlink)
