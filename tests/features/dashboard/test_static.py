"""Static files and the vendored scripts."""

import hashlib
import re

from heatlite.features.dashboard.rendering import FOLDER

from .conftest import Browser

VENDOR = FOLDER / "static/vendor"


def test_vendored_files_have_the_listed_hashes_and_a_licence() -> None:
    table = re.compile(r"^\| `([^`]+)` .* `([0-9a-f]{64})` \|$", re.MULTILINE)
    listed = dict(table.findall((VENDOR / "README.md").read_text()))
    found = {str(one.relative_to(VENDOR)): hashlib.sha256(one.read_bytes()).hexdigest() for one in VENDOR.rglob("*.js")}
    assert found == listed
    assert all((VENDOR / name).with_name("LICENSE").is_file() for name in found)


def test_a_page_names_files_by_their_hash(browser: Browser) -> None:
    names = re.findall(r"/ui/static/[\w.-]+", browser.get("").text)
    assert len(names) >= 3
    for name in names:
        answer = browser.app.get(name)
        assert "immutable" in answer.headers["Cache-Control"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    browser.app.get("/ui/static/app.css", status=404)


def test_no_page_has_inline_scripts_or_styles() -> None:
    for path in FOLDER.parent.glob("*/templates/*.html"):
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?! src)|javascript:", path.read_text()), path.name
        assert "|safe" not in path.read_text()
