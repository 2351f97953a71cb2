"""Modules, kernels, loops, conditions and unrolled regions as PTX; what they compute is asked of
the emulator.
"""

from __future__ import annotations

import io

import numpy as np
import pytest
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.ir import Block
from xdsl.utils.exceptions import VerifyException

from cutedialect.backend.emulator import launch
from cutedialect.backend.ptx import print_ptx, ptx_text
from cutedialect.dialects.ptx import (
    B32,
    B64,
    ForeachOp,
    ForOp,
    IfOp,
    KernelOp,
    RegArrayOp,
    SpecialOp,
    StOp,
    StScalarOp,
    YieldOp,
    imm,
    scalar,
)

HEAD = 'attributes {target = "sm_80", threads = 32 : i32}'


def module_of(kernel: KernelOp):
    from xdsl.dialects.builtin import ModuleOp

    module = ModuleOp([kernel])
    module.verify()
    return module


def run(text: str, *args) -> None:
    launch(text, "k", 1, 32, list(args))


def test_parameters_by_class_and_directives(parse, assembled):
    text = assembled(
        parse(
            "ptx.kernel @k(%a: b64, %unused: b32, %h: b16, %x: f32, %d: f64) attributes {"
            'target = "sm_80", threads = 96 : i32, min_ctas = 2 : i32, max_regs = 64 : i32} {\n'
            '%y = ptx.add "f32" %x, %x : (f32, f32) -> f32\n}'
        )
    )
    assert ".version 7.4\n.target sm_80\n.address_size 64\n" in text
    for position, kind in enumerate(("b64", "b32", "b16", "f32", "f64")):
        assert f"\t.param .{kind} k_param_{position}" in text
    assert ".reqntid 96, 1, 1\n.minnctapersm 2\n.maxnreg 64\n{" in text
    assert text.count("ld.param") == 1, "parameters without a use are not loaded"


def test_kernels_of_one_module(parse, assembled):
    text = assembled(
        parse(
            f"ptx.kernel @first() {HEAD} {{\n}}\nptx.kernel @second() attributes "
            '{target = "sm_80", threads = 32 : i32, smem = 64 : i32} {\n'
            "%s = ptx.smem_base : b32\n}"
        )
    )
    assert text.index(".extern .shared .align 1024 .b8 second_smem[];") < text.index(".visible")
    assert text.count(".visible .entry") == 2


def test_print_ptx_writes_the_same_text(parse):
    module = parse(f"ptx.kernel @k() {HEAD} {{\nptx.trap\n}}")
    out = io.StringIO()
    print_ptx(module, out)
    assert out.getvalue() == ptx_text(module)


def test_a_module_without_kernels(parse):
    with pytest.raises(ValueError, match=r"expected a ptx.kernel in the module"):
        ptx_text(parse("builtin.module {\n}"))


def test_kernels_of_two_targets(parse):
    module = parse(
        f"ptx.kernel @first() {HEAD} {{\n}}\nptx.kernel @second() attributes "
        '{target = "sm_90a", threads = 32 : i32} {\n}'
    )
    with pytest.raises(VerifyException, match=r"expected one target in a module, got sm_80 and"):
        ptx_text(module)


def test_an_unknown_target(parse):
    module = parse('ptx.kernel @k() attributes {target = "sm_8", threads = 32 : i32} {\n}')
    with pytest.raises(ValueError, match=r"expected one of sm_70, .*, got target 'sm_8'"):
        ptx_text(module)


def test_an_op_of_another_dialect(parse):
    module = parse(f"ptx.kernel @k() {HEAD} {{\n%c = arith.constant 1 : i32\n}}")
    with pytest.raises(VerifyException, match=r"expected an op of the ptx dialect.*arith.constant"):
        ptx_text(module)


def test_locations_and_origins():
    block = Block()
    tid = SpecialOp("tid.x")
    tid.location = FileLineColLoc(StringAttr("gemm.py"), IntAttr(7), IntAttr(3))
    tid.attributes["from"] = StringAttr("cute.copy")
    total = scalar("add.s32", tid.res, tid.res)
    total.location = tid.location
    twice = scalar("add.s32", total.results[0], tid.res)
    twice.location = FileLineColLoc(StringAttr("gemm.py"), IntAttr(8), IntAttr(1))
    block.add_ops([tid, total, twice])
    lines = ptx_text(module_of(KernelOp("k", block, "sm_80", 32))).split("\n")
    start = lines.index("\t.loc 1 7 3")
    assert lines[start : start + 5] == [
        "\t.loc 1 7 3",
        "\tmov.u32 %r0, %tid.x; // ir: cute.copy",
        "\tadd.s32 %r1, %r0, %r0; // ir: ptx.add",
        "\t.loc 1 8 1",
        "\tadd.s32 %r2, %r1, %r0; // ir: ptx.add",
    ]
    assert '\t.file 1 "gemm.py"' in lines


@pytest.mark.parametrize(("low", "high", "step"), [(0, 5, 1), (3, 3, 1), (5, 2, 1), (-4, 9, 4)])
def test_a_loop_runs_as_often_as_range(low, high, step, parse, assembled):
    text = assembled(
        parse(
            f"""ptx.kernel @k(%out: b64, %low: b32, %high: b32) {HEAD} {{
              %one = ptx.imm 1 : b32
              %r = ptx.regs : !ptx.regs<b32 x 2>
              %zero = ptx.imm 0 : b32
              ptx.fill %r, %zero : !ptx.regs<b32 x 2>, !ptx.reg<b32>
              ptx.for %i = %low to %high step {step} {{
                ptx.foreach 1 (%n = %r [0], %s = %r [1]) -> (%r [0], %r [1]) {{
                  %n1 = ptx.add "s32" %n, %one : (b32, b32) -> b32
                  %s1 = ptx.add "s32" %s, %i : (b32, b32) -> b32
                  ptx.yield %n1, %s1 : !ptx.reg<b32>, !ptx.reg<b32>
                }}
              }}
              ptx.st "global.v2.b32", %r [%out] {{
                base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0, 1>
              }} : !ptx.regs<b32 x 2>, !ptx.reg<b64>
            }}"""
        )
    )
    out = np.full(2, -1, np.int32)
    run(text, out, np.int32(low), np.int32(high))
    trips = range(low, high, step)
    assert out.tolist() == [len(trips), sum(trips)]


def test_both_sides_of_a_condition(parse, assembled):
    text = assembled(
        parse(
            f"""ptx.kernel @k(%out: b64) {HEAD} {{
              %lane = ptx.special "tid.x" : b32
              %four = ptx.imm 4 : b32
              %ten = ptx.imm 10 : b32
              %offset = ptx.mul "wide.u32" %lane, %four : (b32, b32) -> b64
              %at = ptx.add "s64" %out, %offset : (b64, b64) -> b64
              %small = ptx.setp "lt.u32" %lane, %ten : (b32, b32) -> pred
              ptx.if %small {{
                %first = ptx.setp "lt.u32" %lane, %four : (b32, b32) -> pred
                ptx.if %first {{
                  ptx.return
                }}
                ptx.st.scalar "global.b32", %four, %at {{offset = 0 : i64}}
                  : !ptx.reg<b32>, !ptx.reg<b64>
              }} else {{
                ptx.st.scalar "global.b32", %ten, %at {{offset = 0 : i64}}
                  : !ptx.reg<b32>, !ptx.reg<b64>
              }}
            }}"""
        )
    )
    out = np.zeros(32, np.int32)
    run(text, out)
    assert out.tolist() == [0] * 4 + [4] * 6 + [10] * 22


def unrolled(count, sources, constants, targets, body, size=8):
    """A kernel that fills `size` registers with 1, 2, ..., runs a foreach and stores them."""
    block = Block(arg_types=[B64])
    array = RegArrayOp("b32", size)
    block.add_op(array)
    inner = Block(arg_types=[B32])
    inner.add_op(YieldOp([inner.args[0]]))
    numbers = ForeachOp(size, [], [range(1, size + 1)], [(array.res, range(size))], inner)
    block.add_op(numbers)
    work = Block(arg_types=[B32] * (len(sources) + len(constants)))
    body(work)
    pairs = [[(array.res, index) for index in tables] for tables in (sources, targets)]
    block.add_op(ForeachOp(count, pairs[0], constants, pairs[1], work))
    block.add_op(
        StOp(
            "global.b32",
            array.res,
            [block.args[0]],
            base=[0] * size,
            offset=[4 * i for i in range(size)],
            regs=range(size),
        )
    )
    return module_of(KernelOp("k", block, "sm_80", 32))


def emulated(module, assembled, size=8):
    out = np.zeros(size, np.int32)
    run(assembled(module), out)
    return out.tolist()


def add(block: Block, a, b):
    made = scalar("add.s32", a, b)
    block.add_op(made)
    return made.results[0]


def test_a_repeated_target_is_a_fold(assembled):
    def body(block: Block) -> None:
        block.add_op(YieldOp([add(block, block.args[0], block.args[1])]))

    module = unrolled(7, [[0] * 7, range(1, 8)], [], [[0] * 7], body)
    assert emulated(module, assembled)[0] == 36


def test_the_last_instruction_writes_the_target(assembled):
    def body(block: Block) -> None:
        block.add_op(YieldOp([add(block, block.args[0], block.args[1])]))

    text = assembled(unrolled(8, [range(8)], [range(10, 18)], [range(8)], body))
    assert [f"\tadd.s32 %r{i}, %r{i}, {10 + i};" in text for i in range(8)] == [True] * 8


def test_two_targets_that_swap(assembled):
    def body(block: Block) -> None:
        block.add_op(YieldOp([block.args[1], block.args[0]]))

    module = unrolled(4, [range(4), range(7, 3, -1)], [], [range(4), range(7, 3, -1)], body)
    assert emulated(module, assembled) == [8, 7, 6, 5, 4, 3, 2, 1]


def test_a_target_that_a_later_yield_reads(assembled):
    def body(block: Block) -> None:
        total = add(block, block.args[0], block.args[1])
        block.add_op(YieldOp([total, block.args[0]]))

    module = unrolled(1, [[0], [1]], [], [[0], [1]], body)
    assert emulated(module, assembled)[:2] == [3, 1]


def test_a_value_from_outside_keeps_its_register(assembled):
    block = Block(arg_types=[B64])
    lane = SpecialOp("tid.x")
    array = RegArrayOp("b32", 2)
    block.add_ops([array, lane])
    two = imm(2, "b32")
    block.add_op(two)
    last = add(block, two.res, two.res)
    inner = Block()
    inner.add_op(YieldOp([last]))
    block.add_op(ForeachOp(2, [], [], [(array.res, [0, 1])], inner))
    block.add_op(StOp("global.v2.b32", array.res, [block.args[0]], [0], [0], [0, 1]))
    out = np.zeros(2, np.int32)
    run(assembled(module_of(KernelOp("k", block, "sm_80", 32))), out)
    assert out.tolist() == [4, 4]


def test_nested_loops_built_in_python(assembled):
    block = Block(arg_types=[B64, B32])
    out, n = block.args
    zero, four = imm(0, "b32"), imm(4, "b32")
    block.add_ops([zero, four])
    outer, inner = Block(arg_types=[B32]), Block(arg_types=[B32])
    i, j = outer.args[0], inner.args[0]
    row = scalar("mad.lo.s32", i, n, j)
    place = scalar("mul.wide.s32", row.results[0], four.res)
    at = scalar("add.s64", out, place.results[0])
    inner.add_ops([row, place, at, StScalarOp("global.b32", row.results[0], at.results[0], 0)])
    outer.add_op(ForOp(zero.res, n, 1, inner))
    block.add_op(ForOp(zero.res, n, 1, outer))
    result = np.full((5, 5), -1, np.int32)
    run(assembled(module_of(KernelOp("k", block, "sm_80", 32))), result, np.int32(5))
    np.testing.assert_array_equal(result, np.arange(25).reshape(5, 5))


def test_an_if_built_in_python_without_else(assembled):
    block = Block(arg_types=[B32])
    zero = imm(0, "b32")
    compare = scalar("setp.gt.s32", block.args[0], zero.res)
    block.add_ops([zero, compare, IfOp(compare.results[0], Block())])
    text = assembled(module_of(KernelOp("k", block, "sm_80", 32)))
    assert text.count("bra") == 1


def test_printf_promotes_as_c_does(parse, assembled):
    text = assembled(
        parse(
            f"""ptx.kernel @k(%n: b32, %x: f32, %h: b16) {HEAD} {{
              ptx.printf "n=%d x=%.2f ", %n, %x : !ptx.reg<b32>, !ptx.reg<f32>
              ptx.printf "h=%d;", %h : !ptx.reg<b16>
              ptx.printf "end;"
            }}"""
        )
    )
    assert text.count(".extern .func (.param .b32 result) vprintf") == 1
    report = launch(text, "k", 1, 32, [np.int32(-3), np.float32(1.5), np.int16(9)])
    assert report is not None
    assert report.output.count("n=-3 x=1.50 ") == 32
    assert report.output.count("h=9;") == report.output.count("end;") == 32
