"""The arithmetic that operations become gives the numbers of the expressions that they are."""

import operator
import random

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp

from cutedialect.dialects import all_dialects
from cutedialect.dialects.cute.algebra.values import is_value, numbers_of, value_of
from cutedialect.dialects.walks import walk
from cutedialect.layout import Dyn
from cutedialect.layout.expression import dynamic_leaves, map_dynamic
from cutedialect.passes.algebra.expand_ops import ExpandOpsPass
from cutedialect.tools.locating_parser import LocatingParser
from cutedialect.tools.module_verifier import verify_module


def quotient(one, other):
    return int(one / other)


BINARY = {
    arith.AddiOp: operator.add,
    arith.SubiOp: operator.sub,
    arith.MuliOp: operator.mul,
    arith.DivSIOp: quotient,
    arith.CeilDivSIOp: lambda one, other: -(-one // other),
    arith.RemSIOp: lambda one, other: one - quotient(one, other) * other,
    arith.MinSIOp: min,
    arith.AndIOp: operator.and_,
    arith.XOrIOp: operator.xor,
    arith.ShRUIOp: operator.rshift,
}
PREDICATES = {0: operator.eq, 1: operator.ne, 2: operator.lt, 4: operator.gt}


def run(block, numbers):
    """Evaluate the ops of a block; values of the algebra are lists of their run-time numbers."""
    for op in block.ops:
        name, operands = op.name, [numbers[operand] for operand in op.operands]
        if isinstance(op, arith.ConstantOp):
            results = [op.value.value.data]
        elif type(op) in BINARY:
            results = [BINARY[type(op)](*operands)]
        elif isinstance(op, arith.CmpiOp):
            results = [int(PREDICATES[op.predicate.value.data](*operands))]
        elif isinstance(op, arith.ExtSIOp):
            results = operands
        elif name == "math.absi":
            results = [abs(operands[0])]
        elif isinstance(op, scf.IfOp):
            region = op.true_region if operands[0] else op.false_region
            results = run(region.block, numbers)
        elif name == "cute.get_scalars":
            drawn = iter(operands[0])
            values = numbers_of(value_of(op.operands[0].type))
            if "only_dynamic" in op.properties:
                values = [value for value in values if isinstance(value, Dyn)]
            results = [next(drawn) if isinstance(value, Dyn) else value for value in values]
        elif name == "cute.static":
            results = [[]]
        elif name in ("cute.make_layout", "cute.make_composed_layout"):
            order = operands if name == "cute.make_layout" else reversed(operands)
            results = [[number for part in order for number in part]]
        elif name.startswith("cute.make_"):
            results = [operands]
        elif name in ("func.return", "scf.yield"):
            return operands
        else:
            raise AssertionError(name)
        numbers |= dict(zip(op.results, results, strict=True))
    raise AssertionError("no return")


def expanded(text) -> ModuleOp:
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    module = LocatingParser(context, text, "case.mlir").parse_module()
    verify_module(module)
    ExpandOpsPass().apply(context, module)
    verify_module(module)
    return module


def function(op, operands, result):
    arguments = ", ".join(f"%{at}: {type_}" for at, type_ in enumerate(operands))
    names = ", ".join(f"%{at}" for at in range(len(operands)))
    return (
        f"func.func @f({arguments}) -> {result} {{\n  %r = cute.{op}({names}) : "
        f"({', '.join(operands)}) -> {result}\n  func.return %r : {result}\n}}\n"
    )


# The op, the types of its operands, and of its result. Every `?` is drawn from what divides 96, so
# that what has to divide does where shapes are powers of 2 times 3.
CASES = [
    ("crd2idx", ['coord<"(?,?)">', 'shape<"(4,?)">'], 'int_tuple<"?">'),
    ("layout_eval", ['coord<"?">', 'layout<"(4,8):(1,?)">'], 'int_tuple<"?">'),
    ("layout_eval", ['coord<"(?,?)">', 'layout<"(4,8):(2@0,?@1)">'], 'int_tuple<"(?,?)">'),
    (
        "layout_eval",
        ['coord<"(?,3)">', 'composed_layout<"S<2,1,3> o ? o (8,32):(32,1)">'],
        'int_tuple<"?">',
    ),
    ("idx2crd", ['int_tuple<"?">', 'shape<"((4,?),6)">'], 'coord<"((?,?),?)">'),
    ("increment_coord", ['coord<"(?,(2,?))">', 'shape<"(4,(?,8))">'], 'coord<"(?,(?,?))">'),
    ("ceil_div", ['shape<"(?,9)">', 'shape<"(4,?)">'], 'shape<"(?,?)">'),
    ("ceil_div", ['int_tuple<"?{i64}">', 'int_tuple<"?">'], 'int_tuple<"?{i64}">'),
    ("shape_div", ['shape<"96">', 'shape<"?">'], 'shape<"?">'),
    ("tuple_sub", ['int_tuple<"(?,(7,?))">', 'int_tuple<"(4,(?,6))">'], 'int_tuple<"(?,(?,?))">'),
    ("size", ['layout<"(?,(2,?)):(1,(4,8))">'], 'int_tuple<"?">'),
    ("cosize", ['layout<"(?,8):(1,?)">'], 'int_tuple<"?">'),
    ("elem_less", ['coord<"(1,?)">', 'shape<"(4,?)">'], "i1"),
    ("equal", ['layout<"(?,8):(1,?)">', 'layout<"(4,?):(?,4)">'], "i1"),
    ("complement", ['layout<"?:2">', 'shape<"96">'], 'layout<"(2,?):(1,?)">'),
    ("composition", ['layout<"(?,2):(?,?)">', 'layout<"?:1">'], 'layout<"(?,?):(?,?)">'),
]
DRAWS = 20


def full(type_):
    return type_ if type_ == "i1" else f"!cute.{type_}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_arithmetic_is_what_expressions_are(case):
    from cutedialect.dialects.cute.algebra import OPS
    from cutedialect.dialects.cute.algebra.algebra_op import outcome
    from cutedialect.layout import evaluate

    op, operands, result = case
    text = function(op, [full(one) for one in operands], full(result))
    module = expanded(text)
    assert not [one for one in walk(module) if one.name == f"cute.{op}"]
    [body] = [one.body.block for one in walk(module) if one.name == "func.func"]
    whole = OPS[op].create(operands=list(body.args), result_types=[])
    value = outcome(whole)
    random_ = random.Random(op)
    for _ in range(DRAWS):
        numbers, leaves = {}, {}
        for position, argument in enumerate(body.args):
            assert is_value(argument.type)
            count = len(list(dynamic_leaves(value_of(argument.type))))
            drawn = [random_.choice((1, 2, 3, 4, 6, 8, 12)) for _ in range(count)]
            numbers[argument] = drawn
            leaves |= {(position, at): number for at, number in enumerate(drawn)}
        [got] = run(body, numbers)
        dynamic = []
        map_dynamic((value,), lambda leaf, dynamic=dynamic: dynamic.append(leaf) or leaf)
        expected = [evaluate(leaf, leaves) for leaf in dynamic]
        assert got == expected if isinstance(got, list) else [got] == expected
    whole.erase()
    assert all(isinstance(leaf, Dyn) for leaf in dynamic)
