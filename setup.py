"""Puts the example templates into the package, for ``heatlite init``."""

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


setup(cmdclass={"build_py": BuildWithExamples})
