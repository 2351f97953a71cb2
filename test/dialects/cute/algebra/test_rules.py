"""Every rule gives for run-time leaves what it gives for the numbers that they turn out to be."""

import random

import pytest
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.cute.algebra import OPS
from cutedialect.dialects.cute.algebra.algebra_op import evaluate_rule
from cutedialect.dialects.cute.algebra.values import KINDS, value_of
from cutedialect.layout import ComposedLayout, Dyn, Layout, evaluate


def typed(text):
    kind, value = text.split(" ", 1)
    return KINDS[kind](KINDS[kind].read(value))


# The op, its operands and its attributes. Some of the numbers become run-time values, but not those
# that "static" names, which the rule has to know (such as the stride of 1 that a recast changes).
CASES = [
    ("size", ["shape (4,(2,8))"], {}),
    ("size", ["layout (4,(2,8)):(1,(4,8))"], {"mode": (1,)}),
    ("cosize", ["layout (4,8):(1,5)"], {}),
    ("cosize", ["layout (4,8):(2@0,3@1)"], {}),
    ("tuple_product", ["shape (4,(2,8))"], {}),
    ("tuple_product_each", ["int_tuple (4,(2,8))"], {}),
    ("layout_eval", ["coord (3,5)", "layout (4,8):(8,1)"], {}),
    ("layout_eval", ["coord 21", "layout (4,(2,8)):(16,(8,1))"], {}),
    ("layout_eval", ["coord (3,5)", "layout (4,8):(2@0,3@1)"], {}),
    ("layout_eval", ["coord (3,5)", "composed_layout S<2,1,3> o 6 o (8,32):(32,1)"], {}),
    ("crd2idx", ["coord ((1,2),3)", "shape ((4,8),6)"], {}),
    ("idx2crd", ["int_tuple 105", "shape ((4,8),6)"], {}),
    ("increment_coord", ["coord (3,(2,1))", "shape (4,(3,8))"], {}),
    ("increment_coord", ["coord (1,(2,1))", "shape (4,(3,8))"], {}),
    ("tuple_add", ["int_tuple (1,2,3)", "int_tuple (4,5)"], {}),
    ("tuple_sub", ["shape (9,(8,7))", "shape (4,(5,6))"], {}),
    ("shape_div", ["shape (12,(4,8))", "shape (4,(2,8))"], {}),
    ("shape_div", ["shape (3,4)", "shape 6"], {}),
    ("ceil_div", ["shape (9,8)", "shape (4,4)"], {}),
    ("ceil_div", ["int_tuple (9,8,3)", "int_tuple (2,5)"], {}),
    ("elem_less", ["coord (1,2)", "shape (4,8)"], {}),
    ("elem_less", ["coord (1,8)", "shape (4,8)"], {}),
    ("equal", ["layout (4,8):(1,4)", "layout (4,8):(1,4)"], {}),
    ("equal", ["layout (4,8):(1,4)", "layout (4,8):(1,5)"], {}),
    ("make_layout_like", ["layout (4,8,2):(16,2,1)"], {"static": (16, 2, 1)}),
    ("make_identity_layout", ["shape (4,(2,8))"], {}),
    ("coalesce", ["layout (4,(2,8)):(1,(4,8))"], {}),
    ("flatten", ["layout (4,(2,8)):(1,(4,8))"], {}),
    ("group_modes", ["layout (4,2,8):(1,4,8)"], {"begin": 0, "end": 2}),
    ("select", ["layout (4,2,8):(1,4,8)"], {"mode": (2, 0)}),
    ("get", ["composed_layout S<2,1,3> o 6 o (8,32):(32,1)"], {"mode": (1,)}),
    ("slice", ["layout (4,2,8):(1,4,8)", "coord (_,1,_)"], {}),
    ("slice", ["composed_layout (64):(2) o 6 o (8,4):(4,1)", "coord (_,3)"], {}),
    (
        "slice",
        ["composed_layout S<2,1,3> o 0 o (8,32):(32,1)", "coord (5,_)"],
        {"static": (0, 8, 32, 1)},
    ),
    (
        "recast_layout",
        ["layout (32,4):(1,32)"],
        {"new_type_bits": 32, "old_type_bits": 8, "static": (1,)},
    ),
    (
        "recast_layout",
        ["layout (8,4):(1,8)"],
        {"new_type_bits": 8, "old_type_bits": 32, "static": (1,)},
    ),
    ("composition", ["layout (8,4):(4,1)", "layout 16:2"], {}),
    ("composition", ["layout (6,2):(8,2)", "layout (4,3):(3,1)"], {}),
    ("composition", ["layout (4,6,8):(2,8,48)", "layout 12:4"], {}),
    ("complement", ["layout 4:2", "shape (8,4)"], {}),
    ("logical_divide", ["layout (16,8):(8,1)", "shape (4,2)"], {}),
    ("logical_divide", ["layout (16,8):(8,1)", "layout 4:2"], {}),
    ("zipped_divide", ["layout (16,8):(8,1)", "tile [4:1;2:1]"], {}),
    ("tiled_divide", ["layout (16,8):(8,1)", "shape (4,2)"], {}),
    ("flat_divide", ["layout (16,8):(8,1)", "shape (4,2)"], {}),
    ("append_to_rank", ["shape (4,8)", "shape 1"], {"rank": 4}),
]
DRAWS = 12


def rule(name, types, known):
    return evaluate_rule(OPS[name].ROW, tuple(types), tuple(known.items()))


def with_dynamic(type_, random_, leaves, operand, kept):
    """The type with some of its numbers as run-time values, of which `leaves` gets the numbers."""

    def marked(value):
        if isinstance(value, bool) or not isinstance(value, int):
            if isinstance(value, tuple):
                return tuple(map(marked, value))
            if isinstance(value, Layout):
                shape = marked(value.shape)
                return Layout(shape, marked(value.stride))
            if isinstance(value, ComposedLayout):
                inner, offset = marked(value.inner), marked(value.offset)
                outer = marked(value.outer) if isinstance(value.outer, Layout) else value.outer
                return ComposedLayout(outer, offset, inner)
            return value
        if value in kept or random_.random() < 0.5:
            return value
        leaves[operand, sum(key[0] == operand for key in leaves)] = value
        return Dyn()

    return type(type_)(marked(value_of(type_)))


def meaning(value):
    """What is the same of two spellings of a function: its offsets, for a layout."""
    if isinstance(value, Layout | ComposedLayout):
        return value.offsets(), value.size()
    return value


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda at: f"{CASES[at][0]}-{at}")
def test_dynamic_is_static(case):
    name, operands, known = CASES[case]
    known = dict(known)
    kept = known.pop("static", ())
    types = [typed(text) for text in operands]
    static = rule(name, types, known)
    random_ = random.Random(case)
    tried = 0
    for _ in range(DRAWS):
        leaves = {}
        dynamic = [
            with_dynamic(type_, random_, leaves, operand, kept)
            for operand, type_ in enumerate(types)
        ]
        try:
            value = rule(name, dynamic, known)
        except VerifyException:
            continue  # what has to be static was drawn to be dynamic
        tried += bool(leaves)
        assert meaning(evaluate(value, leaves)) == meaning(static), (dynamic, leaves)
    assert tried, "no run-time operands were taken"
