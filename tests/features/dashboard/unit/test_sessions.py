"""Visitors of the dashboard."""

from heatlite.features.dashboard.sessions import Visitor


def test_a_visitor_hides_credentials() -> None:
    assert Visitor.secret_fields <= {*Visitor.__struct_fields__}
    visitor = Visitor("k", "ann", credentials={"password": "sesame"}, tokens={"demo": "open"})
    assert repr(visitor) == "Visitor(key='k', user='ann', projects={})"
