"""What we print is CuTe IR: nothing of ours in it, operations as their assembly formats say. The
same by NVIDIA's files and definitions, and by MLIR's parser: `cute_ir_tests FOLDER --printed`.
"""

from pathlib import Path

import pytest

from cutedialect.tools import cute_ir_tests
from cutedialect.tools.cute_ir_grammar import (
    for_mlir,
    has_extensions,
    misspelled,
    read_again,
    read_formats,
)

ROOT = Path(__file__).parents[1]
FOLDERS = ("dialects/cute/algebra", "passes/expand_ops", "passes/fold_static", "passes/to_base")
FILES = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).glob("*.mlir"))
    if "verify-diagnostics" not in path.read_text(encoding="utf-8")
]
# Two of the forms that assembly formats have, in TableGen's words.
DEFINITIONS = """
def Some_SizeOp : Cute_Op<"size", [Pure]> {
  let assemblyFormat = [{ (`<` $mode^ `>`)? `(` $input `)` attr-dict `:`
    functional-type($input, $result) }];
}
def Some_GetStrideOp : Cute_Op<"get_stride", [Pure]> {
  let assemblyFormat = "`(` $input `)` attr-dict `:` type($input) `->` qualified(type($result))";
}
def Some_GetScalarsOp : Cute_Op<"get_scalars", [Pure]> {
  let assemblyFormat = [{
    (`<` `{` `only_dynamic` `}` `>` $only_dynamic^)? `(` $cute_value `)` attr-dict `:`
    qualified(type($cute_value))
  }];
}
"""
MODULE = """
func.func @f(%a: !cute.layout<"(4,?):(?,1)">) -> !cute.stride<"(?,1)"> {
  %n = cute.size<[0]> (%a) : (!cute.layout<"(4,?):(?,1)">) -> !cute.int_tuple<"4">
  %i, %j = cute.get_scalars<{only_dynamic}> (%a) : !cute.layout<"(4,?):(?,1)">
  %s = cute.get_stride(%a) : !cute.layout<"(4,?):(?,1)"> -> !cute.stride<"(?,1)">
  return %s : !cute.stride<"(?,1)">
}
"""


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_is_printed_has_nothing_of_ours(path):
    texts = [text for _, text in cute_ir_tests.printed(path) if not has_extensions(text)]
    assert texts
    for text in texts:
        read_again(text)


def test_our_extensions_are_told():
    text = "cute.kernel @k() {\n}\n"
    assert has_extensions(text)
    assert not has_extensions(MODULE)
    with pytest.raises(Exception, match=r"unknown operation 'cute\.kernel'"):
        read_again(text)
    with pytest.raises(Exception, match="fragment"):
        read_again('func.func private @f(!cute.fragment<f32, "(4,4)">)')


def test_operations_are_spelled_as_their_formats_say():
    module = read_again(MODULE)
    formats = read_formats(DEFINITIONS)
    assert set(formats) == {"cute.size", "cute.get_stride", "cute.get_scalars"}
    assert list(misspelled(module, formats)) == []
    got = list(misspelled(module, {"cute.size": formats["cute.size"]}))
    assert [fault.split(":")[0] for fault in got] == ["cute.get_scalars", "cute.get_stride"]


@pytest.mark.parametrize(
    ("operation", "spelled"),
    [
        ("cute.size", '(%a) : !cute.layout<"4:1"> -> !cute.int_tuple<"4">'),
        ("cute.size", '[0] (%a) : (!cute.layout<"4:1">) -> !cute.int_tuple<"4">'),
        ("cute.get_stride", '%a : !cute.layout<"4:1"> -> !cute.stride<"1">'),
        ("cute.get_stride", '(%a) : !cute.layout<"4:1"> -> <"1">'),
        ("cute.get_scalars", '<{only_static}> (%a) : !cute.layout<"?:1">'),
        ("cute.get_scalars", '(%a) : !cute.layout<"?:1"> -> i32'),
    ],
)
def test_another_spelling_is_told(operation, spelled):
    assert read_formats(DEFINITIONS)[operation].fullmatch(spelled) is None


def test_a_parser_without_the_dialect_gets_its_operations_in_generic_form():
    text = for_mlir(read_again(MODULE))
    assert '"cute_of_another.size"(%a) <{mode = array<i32: 0>}> : (!cute_of_another.layout' in text
    assert "func.return" in text
    assert "func.func @f(%a" in text


def test_definitions_that_are_missing_are_said_aloud(tmp_path, capsys):
    assert cute_ir_tests.main([str(tmp_path), "--printed"]) == 2
    assert "NOT RUN: expected the dialect's definitions in" in capsys.readouterr().err
