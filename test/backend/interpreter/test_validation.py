"""Validation names the first pass that changes what a program computes, and says where."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.passes import ModulePass

import cutedialect as cute
from cutedialect.backend.interpreter import ValidationError, copies, draw, validate
from cutedialect.dialects.cute import FillOp, GemmOp, LocalTileOp, ReduceOp
from cutedialect.passes.cute_to_ptx import pipeline

X = np.zeros((136, 72), np.float16)


def planted(name, change):
    """A pass that breaks the first op that `change` takes."""

    @dataclass(frozen=True)
    class Planted(ModulePass):
        def apply(self, ctx, op):
            for each in list(op.walk()):
                if change(each):
                    return
            raise AssertionError("nothing to break")

    Planted.name = name
    return Planted()


def erases(kind):
    def change(op):
        if isinstance(op, kind):
            op.detach()
            op.erase()
            return True
        return False

    return change


def skips_a_trip(op):
    if isinstance(op, scf.ForOp) and any(isinstance(each, GemmOp) for each in op.walk()):
        one = arith.ConstantOp(IntegerAttr(1, i32))
        op.parent_block().insert_op_before(one, op)
        op.operands[0] = one.result
        return True
    return False


def exchanges_coordinates(op):
    if isinstance(op, LocalTileOp) and len(op.coords) == 2:
        op.operands[1], op.operands[2] = op.operands[2], op.operands[1]
        return True
    return False


def reduces_another_way(op):
    if isinstance(op, ReduceOp) and op.kind.data == "add":
        op.properties["kind"] = type(op.kind)("max")
        return True
    return False


def makes_local(op):
    """What threads hold is not what the row holds."""
    from xdsl.dialects.builtin import UnitAttr

    if isinstance(op, ReduceOp):
        op.properties["local"] = UnitAttr()
        return True
    return False


FAULTS = {
    "sums begin with what was there": erases(FillOp),
    "a multiply is lost": erases(GemmOp),
    "the first trip is skipped": skips_a_trip,
    "tiles are exchanged": exchanges_coordinates,
}


def passes(arch, after, fault):
    steps = []
    for step in pipeline(arch):
        steps.append(step)
        if step.name == after:
            steps.append(planted("planted", fault))
    return steps


@pytest.mark.some(12)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("after", ["cute-fuse", "cute-partition", "cute-assign-warp-roles"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_pass_is_named(fault, after, arch):
    kernel = cute.compile(cute.gemm, X, X.T.copy(), arch=arch)
    rng = np.random.default_rng(0)
    args = [rng.integers(-2, 3, s).astype(np.float16) for s in ((136, 72), (72, 136), (136, 136))]
    with pytest.raises(
        ValidationError, match=r"planted changed the result: D\[\d+, \d+\] was"
    ) as e:
        validate(kernel.traced(), passes(arch, after, FAULTS[fault]), [*args, 1.0])
    assert e.value.pass_name == "planted"


@cute.kernel
def softmax(X, D, *, tile=(32, 64)):
    i, j = cute.tile_index(D, tile)
    x = cute.local_tile(X, tile, (i, j)).load()
    e = cute.exp2(x - cute.row_max(x))
    cute.copy(e / cute.row_sum(e), cute.local_tile(D, tile, (i, j)))


@pytest.mark.parametrize("change", [reduces_another_way, makes_local])
def test_reductions_are_compared_with_both_extremes(change):
    x = np.random.default_rng(1).standard_normal((70, 60)).astype(np.float32)
    kernel = cute.compile(softmax, x, x)
    with pytest.raises(ValidationError, match="planted changed the result: D"):
        validate(kernel.traced(), passes("sm_80", "cute-tile", change), [x, x.copy()])


def test_the_passes_themselves_keep_the_result():
    kept = []
    kernel = cute.compile(cute.gemm, X, X.T.copy(), arch="sm_90a")
    module = kernel.traced()
    args = draw(module.body.block.first_op.body.block.args, 0, "floats")
    validate(module, pipeline("sm_90a"), args, after=kept.append)
    assert kept == [
        "cute-structure-exits", "cute-fuse", "cute-tile", "cute-partition", "cute-defer-sums",
        "cute-assign-warp-roles", "cute-schedule-loops",
    ]  # fmt: skip


def test_copies_share_memory_as_the_arrays_do():
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    one, other, alone = base[:, 1:], base.T, np.arange(3.0)
    made = copies([one, [other, alone], 2.5, np.broadcast_to(alone, (2, 3))])
    assert np.array_equal(made[0], one)
    assert np.array_equal(made[1][0], other)
    made[0][...] = -1
    assert (made[1][0][1:] == -1).all()
    assert made[1][0][0, 0] == 0
    assert (base >= 0).all()
    made[3][0] = 9
    assert made[1][1][0] == 9 or made[1][1][0] == 0
