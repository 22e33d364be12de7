"""Files and defaults of a request that a template names."""


from heatlite.engine.planning.visible_inputs import still_named, visible_inputs
from heatlite.template.environment import Environment
from tests.tables import table

FILES = {"file:///job/a.yaml": "type: b.sh", "file:///job/b.sh": "echo", "c.txt": "asks for d", "e.yaml": ""}
DEFAULTS = {"size": 3, "d": "x", "where": "c.txt"}


@table(
    ("template", "defaults", "files"),
    [
        ({}, {}, []),
        ({"r": {"type": "a.yaml"}}, {}, ["file:///job/a.yaml", "file:///job/b.sh"]),
        ({"r": {"get_param": "size"}}, {"size": 3}, []),
        ({"parameters": {"where": {}}}, {"where": "c.txt", "d": "x"}, ["c.txt"]),
        ({"r": "sizes"}, {}, []),
    ],
)
def test_visible_inputs(template: dict[str, object], defaults: dict[str, object], files: list[str]) -> None:
    environment, seen = visible_inputs(template, Environment(parameter_defaults=DEFAULTS), FILES)  # type: ignore[arg-type]
    assert environment["parameter_defaults"] == defaults
    assert sorted(seen) == sorted(files)


def test_the_registry_names_files() -> None:
    _, seen = visible_inputs({}, Environment(resource_registry={"My::Type": "e.yaml"}), FILES)
    assert list(seen) == ["e.yaml"]


@table(
    ("template", "types", "given", "named"),
    [
        ({}, [], {}, []),
        ({"r": {"type": "a.yaml"}}, [], {}, ["file:///job/a.yaml", "file:///job/b.sh"]),
        ({"r": {"type": "file:///new/a.yaml"}}, [], {"file:///new/a.yaml": ""}, []),
        ({"r": {"type": "file:///new/a.yaml"}}, [], {"file:///new/a.yaml": "c.txt"}, ["c.txt"]),
        ({}, ["file:///job/a.yaml"], {"file:///new/a.yaml": ""}, ["file:///job/a.yaml", "file:///job/b.sh"]),
        ({"r": {"get_file": {"list_join": ["", ["x", "c.txt"]]}}}, [], {}, ["c.txt"]),
    ],
)
def test_still_named(template: dict[str, object], types: list[str], given: dict[str, str], named: list[str]) -> None:
    assert sorted(still_named(template, Environment(), types, FILES, given)) == sorted(named)  # type: ignore[arg-type]


def test_a_stored_registry_names_stored_files() -> None:
    environment = Environment(resource_registry={"My::Type": "file:///job/a.yaml"})
    assert still_named({}, environment, (), FILES, {"file:///new/a.yaml": ""}) == {
        "file:///job/a.yaml",
        "file:///job/b.sh",
    }
