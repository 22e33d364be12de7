"""The plots of docs/images show the tables of docs/benchmarks.md."""

from xml.etree import ElementTree

import pytest

from benchmarks import plots

PAGE = (plots.DOCS / "benchmarks.md").read_text("utf-8")
PLOTS = plots.plots(PAGE)


@pytest.mark.parametrize("name", PLOTS)
def test_each_plot_is_kept_as_the_tables_draw_it(name: str) -> None:
    kept = (plots.DOCS / "images" / name).read_text("utf-8")
    assert kept == PLOTS[name], "Draw them: python -m benchmarks.plots"
    ElementTree.fromstring(kept)
    assert f"images/{name}" in PAGE


def test_a_page_without_the_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="no table below '### Requests'"):
        plots.table("# Empty\n", "### Requests")
