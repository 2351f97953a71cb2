"""Scalar code: simplification against the arithmetic it stands for, sharing, and hoisting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.ir import Block

from cutedialect.dialects import ptx
from cutedialect.passes.lower.scalar_builder import ScalarBuilder, wrap
from cutedialect.passes.rewriting import sweep

INPUTS = [0, 1, 2, 3, 7, 8, 31, 100, -1, -2, -7, -8, -100, 2**31 - 1, -(2**31), 12345678]
CONSTANTS = [0, 1, 2, 8, 3, -1, -4, 2**31 - 1]


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def unsigned(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    return lambda a, b: function(a % 2**32, b % 2**32)


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "divsi": truncated,
    "remsi": lambda a, b: a - b * truncated(a, b),
    "divui": unsigned(lambda a, b: a // b),
    "remui": unsigned(lambda a, b: a % b),
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "maxsi": max,
    "minsi": min,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_constants_on_either_side(run_kernel, name) -> None:
    """Each result is a column of the output, so one kernel tries all constants."""
    tile = '!cute.memref<i32, gmem, align<4>, "(16):(1)">'
    regs = '!cute.fragment<i32, "(16)", "(16,1):(1,0)">'
    lines, expected = [], []
    outputs = 0
    for constant in CONSTANTS:
        for swapped in (False, True):
            if name[:3] in ("div", "rem") and (constant == 0 or swapped):
                continue
            left, right = ("%c", "%v") if swapped else ("%v", "%c")
            lines.append(f"""
  %o{outputs} = cute.map (%v = %x : {regs}) -> {regs} {{
    %c = arith.constant {constant} : i32
    %r = arith.{name} {left}, {right} : i32
    cute.yield %r : i32
  }}
  cute.copy %o{outputs}, %t{outputs} : {regs} -> {tile}""")
            pairs = [(constant, x) if swapped else (x, constant) for x in INPUTS]
            expected.append([wrap(OPERATIONS[name](a, b), 32, True) for a, b in pairs])
            outputs += 1
    arguments = ", ".join([f"%a: {tile}", *(f"%t{i}: {tile}" for i in range(outputs))])
    text = f"""
cute.kernel @k({arguments}) attributes {{threads = 32 : i32}} {{
  %x = cute.load %a : {tile} -> {regs}
  {"".join(lines)}
}}"""
    results = [np.zeros(16, np.int32) for _ in range(outputs)]
    run_kernel(text, 1, [np.array(INPUTS, np.int32), *results], 32)
    for got, wanted in zip(results, expected, strict=True):
        assert got.tolist() == wanted


@pytest.fixture
def builder() -> ScalarBuilder:
    return ScalarBuilder(Block(arg_types=[ptx.reg("b32"), ptx.reg("b32"), ptx.reg("pred")]))


def mnemonics(block: Block) -> list[str]:
    return [op.mnemonic for op in block.ops if isinstance(op, ptx.ScalarOp)]


def test_equal_code_is_written_once(builder) -> None:
    x, y, _ = builder.levels[0].block.args
    assert builder.pure("add.s32", x, y) is builder.pure("add.s32", x, y)
    assert builder.pure("add.s32", builder.pure("add.s32", x, 3), 4) is builder.pure(
        "add.s32", x, 7
    )
    assert mnemonics(builder.levels[0].block) == ["add.s32", "add.s32", "add.s32"]
    sweep(builder.levels[0].block, lambda op: isinstance(op, ptx.ScalarOp))
    assert mnemonics(builder.levels[0].block) == []


def test_neutral_operands_cost_nothing(builder) -> None:
    x, _, p = builder.levels[0].block.args
    assert builder.pure("mul.lo.s32", x, 1) is x
    assert builder.pure("mul.lo.s32", 0, x) == 0
    assert builder.pure("sub.s32", x, x) == 0
    assert builder.pure("and.b32", x, -1) is x
    assert builder.pure("selp.b32", 5, 6, True) == 5
    assert builder.both(True, p, p) is p
    assert builder.both(p, False) is False
    assert mnemonics(builder.levels[0].block) == []


def test_powers_of_two_need_a_known_sign(builder) -> None:
    x, y, _ = builder.levels[0].block.args
    builder.assume_nonnegative(x)
    builder.pure("div.s32", x, 8)
    builder.pure("rem.s32", x, 8)
    builder.pure("div.s32", y, 8)
    assert mnemonics(builder.levels[0].block) == ["shr.u32", "and.b32", "div.s32"]


def test_loops_lose_what_they_do_not_change(builder) -> None:
    x, y, _ = builder.levels[0].block.args
    loop, branch = Block(arg_types=[ptx.reg("b32")]), Block()
    builder.push(loop, repeats=True)
    builder.push(branch, repeats=False)
    builder.pure("add.s32", x, y)
    builder.pure("add.s32", loop.args[0], y)
    builder.pop()
    builder.pop()
    assert mnemonics(builder.levels[0].block) == ["add.s32"]
    assert mnemonics(branch) == ["add.s32"]
    other = Block()
    builder.push(other, repeats=False)
    builder.pure("xor.b32", x, y)
    builder.pop()
    builder.pure("xor.b32", x, y)
    assert mnemonics(other) == ["xor.b32"]
    assert mnemonics(builder.levels[0].block) == ["add.s32", "xor.b32"]


def test_rare_branches_keep_what_they_compute(builder) -> None:
    x, y, _ = builder.levels[0].block.args
    loop, rare, inner = Block(arg_types=[ptx.reg("b32")]), Block(), Block()
    builder.push(loop, repeats=True)
    builder.pure("xor.b32", x, y)
    builder.push(rare, repeats=False, is_rare=True)
    builder.pure("add.s32", x, y)
    builder.pure("xor.b32", x, y)
    builder.push(inner, repeats=True)
    builder.pure("sub.s32", x, y)
    for _ in range(3):
        builder.pop()
    assert mnemonics(builder.levels[0].block) == ["xor.b32"]
    assert mnemonics(loop) == mnemonics(inner) == []
    assert mnemonics(rare) == ["add.s32", "sub.s32"]


def test_sums_join_outer_terms_first(builder) -> None:
    x, y, _ = builder.levels[0].block.args
    loop = Block(arg_types=[ptx.reg("b32")])
    builder.push(loop, repeats=True)
    builder.total([3, loop.args[0], x, 4, y])
    assert mnemonics(loop) == ["add.s32", "add.s32"]
    builder.pop()
    assert mnemonics(builder.levels[0].block) == ["add.s32"]
