"""Puts the example templates into the package, for ``heatlite init``.

The description of the package is the README with paths instead of links into the repository, and without pictures:
these lead nowhere from the page of an index.
"""

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithExamples(build_py):
    """Copies ``templates`` to ``heatlite/examples``; a checkout is read in place."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            shutil.copytree("templates", Path(self.build_lib, "heatlite", "examples"), dirs_exist_ok=True)


HERE = Path(__file__).parent
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)#]+)[^)]*\)")
PICTURE = re.compile(r"^!\[[^\]]*\]\([^)]+\)\n\n?", re.MULTILINE)


def description() -> str:
    """Return the README for the page of an index, where its pages are not."""
    text = PICTURE.sub("", (HERE / "README.md").read_text("utf-8"))
    title, rest = LINK.sub(r"\1 (`\2`)", text).split("\n", 1)
    return f"{title}\n\nPaths are those of the source distribution.\n{rest}"


setup(
    cmdclass={"build_py": BuildWithExamples},
    long_description=description(),
    long_description_content_type="text/markdown",
)
