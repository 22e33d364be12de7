"""Registry of types: built in, from other packages, broken ones."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from heatlite.core.errors import EntityNotFound, Invalid, NotSupported, ResourceTypeUnavailable
from heatlite.plugin import Resource, Schema, SupportStatus, prop
from heatlite.plugin.registry import Registry
from heatlite.resources import BUILTIN

EXAMPLE = Path(__file__).parents[2] / "example_plugin"


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[Path]:
    """A folder of installed packages, on the import path."""
    modules = set(sys.modules)
    sys.path.insert(0, str(tmp_path))
    yield tmp_path
    sys.path.remove(str(tmp_path))
    for name in sys.modules.keys() - modules:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def install(folder: Path, name: str, entries: dict[str, str], source: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{type_name} = {value}" for type_name, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(["[heatlite.resources]", *lines, ""]))
    (folder / f"{name}.py").write_text(source)


def test_built_in_types_are_listed_sorted() -> None:
    assert set(BUILTIN) <= set(Registry(BUILTIN).names())
    assert Registry(BUILTIN).names() == sorted(Registry(BUILTIN).names())


def test_names_import_nothing(packages: Path) -> None:
    """A listing loads types, to know hidden ones. A failing import harms nothing."""
    install(packages, "quiet", {"Quiet::A": "quiet:A"}, "raise SystemExit('imported')")
    registry = Registry({})
    assert "Quiet::A" in registry.names()
    assert "quiet" not in sys.modules
    assert registry.listing(name="Quiet") == ["Quiet::A"]
    with pytest.raises(ResourceTypeUnavailable, match="SystemExit: imported"):
        registry.get("Quiet::A")


def test_a_type_of_another_package_is_found(packages: Path) -> None:
    sys.path.insert(0, str(EXAMPLE))
    try:
        registry = Registry(BUILTIN)
        assert "Example::Local::File" in registry.names()
        assert registry.get("Example::Local::File").description().startswith("A file in a directory.")
    finally:
        sys.path.remove(str(EXAMPLE))
        sys.modules.pop("example_heatlite_plugin", None)


SOUND = """
from heatlite.plugin import Resource, Schema

class A(Resource[Schema], type="Sound::A"):
    "Sound."
"""


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("nowhere:A", "nowhere:A cannot be loaded: ModuleNotFoundError: No module named 'nowhere'"),
        ("broken:B", "broken:B cannot be loaded: AttributeError: module 'broken' has no attribute 'B'"),
        ("broken:number", "broken:number is not a Resource class"),
        ("broken:A", "broken:A calls itself Broken::Other"),
    ],
)
def test_a_broken_type_is_reported_and_harms_no_other(packages: Path, value: str, reason: str) -> None:
    install(packages, "sound", {"Sound::A": "sound:A"}, SOUND)
    install(packages, "broken", {"Broken::A": value}, SOUND.replace("Sound::A", "Broken::Other") + "number = 1\n")
    registry = Registry(BUILTIN)
    with pytest.raises(ResourceTypeUnavailable) as caught:
        registry.get("Broken::A")
    assert caught.value.message == f"The resource type Broken::A is not available: {reason}"
    view = registry.find("Broken::A")
    assert view is not None
    assert [fault.text for fault in view.check_properties({"any": 1})] == [caught.value.message]
    assert view.any_attribute
    assert registry.get("Sound::A").type_name == "Sound::A"
    assert registry.described(registry.listing(name=".*::A$")) == [
        {"resource_type": "Broken::A", "description": f"Not available: {reason}"},
        {"resource_type": "Sound::A", "description": "Sound."},
    ]
    assert registry.listing(name=".*::A$", support_status="SUPPORTED") == ["Sound::A"]


def test_a_module_that_fails_to_import_is_reported(packages: Path) -> None:
    install(packages, "exploding", {"Exploding::A": "exploding:A"}, "1 / 0")
    with pytest.raises(ResourceTypeUnavailable, match="ZeroDivisionError: division by zero"):
        Registry({}).get("Exploding::A")


def test_two_packages_with_one_name_make_it_unavailable(packages: Path) -> None:
    install(packages, "one", {"Sound::A": "one:A"}, SOUND)
    install(packages, "two", {"Sound::A": "two:A"}, SOUND)
    with pytest.raises(ResourceTypeUnavailable, match="several packages offer it: one:A, two:A"):
        Registry({}).get("Sound::A")


def test_a_built_in_name_cannot_be_taken(packages: Path) -> None:
    install(packages, "thief", {"OS::Heat::Value": "thief:A"}, SOUND)
    assert Registry(BUILTIN).get("OS::Heat::Value").__module__ == "heatlite.resources.heat.values"


class OldProps(Schema):
    size: int = prop(3, doc="How big.")


class Old(Resource[OldProps], type="Test::Old"):
    """Old."""

    support_status = SupportStatus(
        "DEPRECATED", version="2", message="Use New.", previous=SupportStatus("SUPPORTED", version="1")
    )


class Hidden(Resource[OldProps], type="Test::Hidden"):
    """Not to be seen."""

    support_status = SupportStatus("HIDDEN")


@pytest.fixture
def registry() -> Registry:
    registry = Registry(BUILTIN)
    registry.register(Old)
    registry.register(Hidden)
    return registry


def test_an_unknown_type(registry: Registry) -> None:
    assert registry.find("No::Such") is None
    for ask in (registry.get, registry.describe, registry.skeleton):
        with pytest.raises(EntityNotFound, match=r"The Resource Type \(No::Such\) could not be found."):
            ask("No::Such")


def test_describe(registry: Registry) -> None:
    body = {
        "resource_type": "Test::Old",
        "properties": {
            "size": {
                "type": "integer",
                "description": "How big.",
                "required": False,
                "default": 3,
                "update_allowed": False,
                "immutable": False,
            }
        },
        "attributes": {"show": {"description": "Detailed information about resource.", "type": "map"}},
        "support_status": {
            "status": "DEPRECATED",
            "message": "Use New.",
            "version": "2",
            "previous_status": {"status": "SUPPORTED", "message": None, "version": "1", "previous_status": None},
        },
    }
    assert registry.describe("Test::Old") == body
    assert registry.describe("Test::Old", with_description=True) == body | {"description": "Old."}


def test_a_hidden_type_is_not_described(registry: Registry) -> None:
    with pytest.raises(NotSupported, match="Test::Hidden is not supported"):
        registry.describe("Test::Hidden")


def test_listing_by_name_matches_from_the_start(registry: Registry) -> None:
    assert registry.listing(name=".*RandomString") == ["OS::Heat::RandomString"]
    assert registry.listing(name="RandomString") == []
    assert registry.listing(name="[") == []


def test_listing_by_support_status(registry: Registry) -> None:
    assert registry.listing(name="Test::", support_status="DEPRECATED") == ["Test::Old"]
    assert registry.listing(name="Test::") == ["Test::Old"]
    assert registry.listing(support_status="HIDDEN") == []
    with pytest.raises(Invalid, match="The support status ZZ is not known"):
        registry.listing(support_status="ZZ")


def test_a_skeleton_has_a_language(registry: Registry) -> None:
    assert registry.skeleton("Test::Old") == registry.skeleton("Test::Old", "cfn")
    with pytest.raises(ValueError, match="zz is no template language"):
        registry.skeleton("Test::Old", "zz")
