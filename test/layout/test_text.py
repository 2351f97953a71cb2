"""Layout text: round trips, and the offset of what is wrong."""

import re

import pytest

from cutedialect.layout import (
    ComposedLayout,
    Dyn,
    Layout,
    LayoutSyntaxError,
    ScaledBasis,
    Swizzle,
    format_tile,
    parse,
    parse_int_tuple,
    parse_layout,
    parse_swizzle,
    parse_tile,
    to_text,
)


@pytest.mark.parametrize(
    "text",
    [
        "4:1",
        "(4,8):(8,1)",
        "():()",
        "(4):(1)",
        "((4,8),2):((16,1),8)",
        "(4,8):(-1,-4)",
        "(?,8):(?{i64 div=8},1)",
        "(?{div=8},?{i64}):(1,?{div=8})",
        "(4,8):(1@0,1@1)",
        "(4,5):(1@1,2@1@4)",
        "?:?@0",
        "S<3,4,3>",
        "S<2,0,-2>",
        "S<3,4,3> o 0 o (8,64):(64,1)",
        "S<3,3,3> o ?{div=64} o (8,64):(64,1)",
        "(4,5):(1,4) o 2 o (2,3):(1,2)",
        "(4,3):(1@0,1@1) o (1,1) o (4,3):(1,4)",
    ],
)
def test_round_trip(text):
    value = parse(text)
    assert str(value) == text
    assert parse(text.replace(",", " , ").replace(":", " : ")) == value
    assert hash(parse(str(value))) == hash(value)
    assert type(value).parse(text) == value


@pytest.mark.parametrize("text", ["(_,1)", "()", "((1,_),?)", "?{div=16}", "-3", "(1@0,0)"])
def test_int_tuples_round_trip(text):
    assert to_text(parse_int_tuple(text)) == text


@pytest.mark.parametrize("text", ["[4:1;8:1]", "[_;[2:1;1:1]]", "[(3):(1)]", "[?:1;_]"])
def test_tiles_round_trip(text):
    assert format_tile(parse_tile(text)) == text


def test_parts():
    assert parse_layout("(4,8)") == Layout((4, 8), (1, 4))
    assert parse_layout("(4,?):(?{i64 div=8},1)").stride == (Dyn(8, 64), 1)
    assert parse_layout("4:2@1@3").stride == ScaledBasis(2, (3, 1))
    assert parse("S<3,4,3> o 64 o 8:1") == ComposedLayout(Swizzle(3, 4, 3), 64, Layout(8, 1))
    assert parse_layout("(4,8)") is parse_layout("(4,8)")


WRONG = [
    (parse_layout, "", 0, "expected an integer, '?' or '(', got the end"),
    (parse_layout, "(4,8", 4, "expected ',' or ')', got the end"),
    (parse_layout, "(4,8):(8,x)", 9, "got 'x'"),
    (parse_layout, "(4,8):(8,1))", 11, "expected the end"),
    (parse_layout, "  (4,8):(1)", 2, "not congruent"),
    (parse_layout, "4:1;", 3, "expected the end"),
    (parse_layout, "(4,,8)", 3, "got ','"),
    (parse_layout, "4,8:8,1", 1, "expected the end"),
    (parse_layout, "(_,8):(_,1)", 0, "expected non-negative int extents"),
    (parse_layout, "-4:1", 0, "expected non-negative int extents"),
    (parse_layout, "?{div=0}:1", 0, "div >= 1"),
    (parse_layout, "4:1@", 3, "expected the end"),
    (parse_layout, "(" * 100, 65, "at most 64 nested"),
    (parse_swizzle, "S<3,4>", 0, "expected a swizzle"),
    (parse_swizzle, "S<3,4,2>", 0, "expected bits >= 0"),
    (parse, "S<3,4,3> o 0", 12, "expected 'o', got the end"),
    (parse, "S<3,4,3> o (1,1) o 4:1", 11, "expected an int offset"),
    (parse_tile, "[4:1;", 5, "got the end"),
    (parse_tile, "4:1", 0, "expected '['"),
    (parse_tile, "[4:1,8:1]", 4, "expected ';' or ']'"),
]


@pytest.mark.parametrize(("read", "text", "offset", "message"), WRONG, ids=[w[1] for w in WRONG])
def test_error_has_the_offset(read, text, offset, message):
    with pytest.raises(LayoutSyntaxError, match=re.escape(message)) as error:
        read(text)
    assert error.value.offset == offset
