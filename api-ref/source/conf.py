"""Build of the API reference: ``sphinx-build -W -b html api-ref/source <out>``.

Needs sphinx, os-api-ref and openstackdocstheme (extra ``docs``); neither heatlite itself nor the network.
The theme prints the commit, so the build wants a git checkout.
"""

project = "heatlite API Reference"
copyright = "2026, the heatlite authors"  # noqa: A001 - the name is Sphinx's
language = "en"

extensions = ["openstackdocstheme", "os_api_ref"]

master_doc = "index"
exclude_patterns = ["v1/*.inc"]
pygments_style = "native"

html_theme = "openstackdocs"
html_theme_options = {"sidebar_mode": "toc", "display_badge": False}
html_copy_source = False
openstackdocs_auto_name = False
