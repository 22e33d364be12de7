"""Edits of stored definitions, and the same edits in the text of a template."""

from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.cli.output import template_files
from heatlite.core.json import as_map, pointer
from heatlite.core.redaction.masking import MASK, NOTHING, Mask
from heatlite.template.edits import DefinitionPart, Edit, applied, edited
from heatlite.template.source.loader import load
from heatlite.template.source.rewriting import CannotRewrite, rewritten, written
from tests.tables import table

TEMPLATE = """\
# Two words on the shop.
heat_template_version: 2018-08-31
parameters:
  size: {type: number, default: 2}   # servers

resources:
  # The network.
  net:
    type: OS::Neutron::Net
    properties:
      name: shop   # as users know it
      tags: [a, b]
      dns_domain: |
        two
        lines
  web:
    type: OS::Heat::ResourceGroup
    depends_on: [net]
    properties:
      rules:
        - port: 80
          protocol: tcp
        - port: 443   # secure

# The end.
outputs: {}
"""
PROPERTIES = ("resources", "net", "properties")
RULES = ("resources", "web", "properties", "rules")
NEW = {"type": "OS::Cinder::Volume", "properties": {"size": 1, "name": "a: b"}}


@table(
    "edits, change",
    [
        ([Edit(DefinitionPart.TEMPLATE, (*PROPERTIES, "name"), "store")], ("name: shop ", "name: store ")),
        (
            [Edit(DefinitionPart.TEMPLATE, (*PROPERTIES, "name"), {"a": [1]})],
            ("name: shop ", "name:\n        a:\n        - 1 "),
        ),
        ([Edit(DefinitionPart.TEMPLATE, (*PROPERTIES, "tags", 1), "c")], ("[a, b]", '[a, "c"]')),
        ([Edit(DefinitionPart.TEMPLATE, (*PROPERTIES, "tags", "-"), "c")], ("[a, b]", '[a, b, "c"]')),
        ([Edit(DefinitionPart.TEMPLATE, (*PROPERTIES, "tags", 0))], ("[a, b]", "[b]")),
        ([Edit(DefinitionPart.TEMPLATE, (*PROPERTIES, "tags"))], ("      tags: [a, b]\n", "")),
        (
            [Edit(DefinitionPart.TEMPLATE, (*PROPERTIES, "dns_domain"))],
            ("      dns_domain: |\n        two\n        lines\n", ""),
        ),
        (
            [Edit(DefinitionPart.TEMPLATE, (*PROPERTIES, "dns_domain"), "one")],
            ("dns_domain: |\n        two\n        lines", "dns_domain: one"),
        ),
        (
            [Edit(DefinitionPart.TEMPLATE, (*PROPERTIES, "mtu"), 9000)],
            ("        lines\n", "        lines\n      mtu: 9000\n"),
        ),
        ([Edit(DefinitionPart.TEMPLATE, (*RULES, 1, "port"), 8443)], ("443 ", "8443 ")),
        ([Edit(DefinitionPart.TEMPLATE, (*RULES, 0))], ("        - port: 80\n          protocol: tcp\n", "")),
        (
            [Edit(DefinitionPart.TEMPLATE, (*RULES, "-"), {"port": 22})],
            ("# secure\n", "# secure\n        - port: 22\n"),
        ),
        (
            [Edit(DefinitionPart.TEMPLATE, ("resources", name), NEW) for name in ("v", "w")],
            (
                "# secure\n",
                "# secure\n"
                + "".join(
                    f"  {name}:\n    type: OS::Cinder::Volume\n    properties:\n      size: 1\n      name: 'a: b'\n"
                    for name in ("v", "w")
                ),
            ),
        ),
        (
            [Edit(DefinitionPart.TEMPLATE, ("outputs", "id"), {"value": 1})],
            ("outputs: {}", "outputs:\n  id:\n    value: 1"),
        ),
        (
            [Edit(DefinitionPart.TEMPLATE, ("conditions", "c"), True)],
            ("outputs: {}", "outputs: {}\nconditions:\n  c: true"),
        ),
    ],
)
def test_an_edit_leaves_the_rest_of_the_text_as_it_is(edits: list[Edit], change: tuple[str, str]) -> None:
    document = load(TEMPLATE).data
    after = edited(document, {}, edits)
    text = rewritten(TEMPLATE, after.patches[DefinitionPart.TEMPLATE], after.document)
    assert text == TEMPLATE.replace(*change)
    assert load(text).data == after.document == applied(document, after.patches[DefinitionPart.TEMPLATE])


@table(
    "text, expected",
    [
        ("{a: 1, # one\n b: 2}\n", '{a: 1, # one\n b: 2, "c": 3}\n'),
        ('{"a": 1}', '{\n  "a": 1,\n  "c": 3\n}\n'),
        ("a: 1\r\nb: 2 # two\r\n", "a: 1\r\nb: 2 # two\r\nc: 3\r\n"),
        ("a: 1\r\nb: 2\n", "a: 1\r\nb: 2\nc: 3\n"),
    ],
)
def test_an_edit_keeps_the_comments_and_line_ends_of_each_notation(text: str, expected: str) -> None:
    assert rewritten(text, [{"op": "add", "path": "/c", "value": 3}], {"a": 1, "c": 3}) == expected


def test_patches_say_each_part() -> None:
    document, environment = load(TEMPLATE).data, {"parameters": {"size": 3}, "resource_registry": {"resources": {}}}
    before = deepcopy((document, environment))
    after = edited(
        document,
        environment,
        [
            Edit(DefinitionPart.PARAMETERS, ("size",)),
            Edit(DefinitionPart.PARAMETERS, ("key",), "sesame!"),
            Edit(DefinitionPart.PARAMETERS, ("secret",), 1),
            Edit(DefinitionPart.ENVIRONMENT, ("resource_registry", "resources", "a/b", "protect"), True),
            Edit(DefinitionPart.TEMPLATE, ("resources", "web", "depends_on")),
        ],
    )
    assert (document, environment) == before
    assert after.environment == {
        "parameters": {"key": "sesame!", "secret": 1},
        "resource_registry": {"resources": {"a/b": {"protect": True}}},
    }
    shown = after.shown(Mask(lambda: ["sesame!"]), {"secret"})
    text = shown.pop("template")
    assert isinstance(text, str) and load(text).data == after.document
    assert shown == {
        "template_patch": [{"op": "remove", "path": "/resources/web/depends_on"}],
        "parameters_patch": [
            {"op": "remove", "path": "/size"},
            {"op": "add", "path": "/key", "value": MASK},
            {"op": "add", "path": "/secret", "value": MASK},
        ],
        "environment_patch": [
            {"op": "add", "path": "/resource_registry/resources/a~1b", "value": {"protect": True}},
        ],
    }


_KEYS = st.text("ab/~: #", min_size=1, max_size=3)
_LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab:#'\"\n -~é", max_size=6)
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3), max_leaves=8
)


@st.composite
def _edits(draw: st.DrawFn, document: dict) -> list[Edit]:
    """Draw edits, each of a place that the edits before have left."""
    found: list[Edit] = []
    for _ in range(draw(st.integers(1, 4))):
        at, path = document, ()
        while True:
            step = draw(st.sampled_from([*at])) if isinstance(at, dict) and at else None
            step = draw(st.integers(0, len(at) - 1)) if isinstance(at, list) and at else step
            if step is None or path and draw(st.booleans()):
                break
            path, at = (*path, step), at[step]
        if isinstance(at, dict) and draw(st.booleans()):
            path = (*path, draw(_KEYS))
        elif isinstance(at, list) and draw(st.booleans()):
            path = (*path, "-")
        if not path:
            continue
        exists = path[-1] != "-" and at is not None and (not isinstance(at, dict) or path[-1] in at or at == {})
        edit = Edit(DefinitionPart.TEMPLATE, path, draw(_VALUES))
        if exists and draw(st.booleans()):
            edit = Edit(DefinitionPart.TEMPLATE, path)
        try:
            document = as_map(edited(document, {}, [edit]).document)
        except (LookupError, TypeError):
            continue
        found.append(edit)
    return found


@pytest.mark.slow
@given(st.data())
def test_law_the_patch_and_the_text_lead_to_the_same(data: st.DataObject) -> None:
    document = {"heat_template_version": "2018-08-31", "resources": data.draw(st.dictionaries(_KEYS, _VALUES))}
    after = edited(document, {}, data.draw(_edits(document)))
    patch = after.patches[DefinitionPart.TEMPLATE]
    assert applied(document, patch) == after.document
    text = as_map(after.shown(NOTHING, ()))["template"]
    assert isinstance(text, str) and load(text).data == after.document
    try:
        text = rewritten(written(document), patch, after.document)
    except CannotRewrite:
        return
    assert load(text).data == after.document


def test_a_pointer_has_escapes() -> None:
    assert pointer(("a/b", "~", 0)) == "/a~1b/~0/0"


def test_a_file_is_changed_only_if_it_is_the_stored_template(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = load(TEMPLATE).data
    edits = [Edit(DefinitionPart.TEMPLATE, (*PROPERTIES, "name"), "store"), Edit(DefinitionPart.PARAMETERS, ("a",), 1)]
    after = edited(document, {}, edits)
    plan, file = after.shown(NOTHING, ()), tmp_path / "shop.yaml"
    file.write_text(TEMPLATE)
    stored = template_files.Stored(document)
    assert template_files.write(file, stored, plan)
    assert file.read_text() == TEMPLATE.replace("name: shop", "name: store")
    assert not template_files.write(file, stored, plan)
    assert file.read_text() == TEMPLATE.replace("name: shop", "name: store")
    pasted = "resources:\n  net:\n    properties:\n      name: store\n"
    parameters = "# parameters of the environment\na: 1\n"
    assert capsys.readouterr().out == parameters + pasted + parameters
