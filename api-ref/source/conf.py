"""Build of the API reference: ``sphinx-build -W -b html api-ref/source <out>``.

Needs ``requirements/docs.txt``; neither heatlite itself nor the network. Its pages load nothing from elsewhere.
"""

import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parents[1] / "ext"))

project = "heatlite API reference"
copyright = "2026, the heatlite authors"  # noqa: A001 - the name is Sphinx's
language = "en"

extensions = ["os_api_ref", "rest_body"]
exclude_patterns = ["v1/*.inc"]

html_theme = "furo"
html_title = "heatlite API reference"
html_static_path = ["_static"]
html_css_files = ["api-ref.css"]
html_copy_source = False
html_show_sphinx = False


def drop_script(
    _app: Sphinx, _page: str, _template: str, context: dict[str, object], _tree: nodes.document | None
) -> None:
    """Leave out the script of os-api-ref, which folds operations with jQuery and Bootstrap: all are open here."""
    scripts = context["script_files"]
    assert isinstance(scripts, list)
    context["script_files"] = [script for script in scripts if "api-site.js" not in str(script.filename)]


def setup(app: Sphinx) -> None:
    """Register the handler, as Sphinx demands."""
    app.connect("html-page-context", drop_script)
