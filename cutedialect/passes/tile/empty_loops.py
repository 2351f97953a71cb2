"""Loops that are known to make no trip, from constants alone: a step of `cute-tile` erases them, so
that no pass chooses for what never runs, and no assembler meets it. (The ptxas of CUDA 13.0 drops
the ones below, in front of a `wgmma` that is never reached.)

    cute.fill %acc, 1
    scf.for %t = 0 to 0 step 1 { cute.gemm %a, %b, %acc }    =>    cute.fill %acc, 1
    cute.copy %acc, %view                                          cute.copy %acc, %view
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith, scf
from xdsl.ir import Operation, SSAValue

from cutedialect.dialects.cute import KernelOp
from cutedialect.dialects.walks import ops_around, ops_of
from cutedialect.passes.analysis.memory_views import constant_of
from cutedialect.passes.anchors import anchored
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import erase, sweep

# What integer ops compute, of numbers that do not wrap.
_COMPUTED: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda x, y: x + y,
    arith.SubiOp: lambda x, y: x - y,
    arith.MuliOp: lambda x, y: x * y,
    arith.MaxSIOp: max,
    arith.MinSIOp: min,
    arith.CeilDivSIOp: lambda x, y: -(-x // y),
    arith.FloorDivSIOp: lambda x, y: x // y,
}
_QUOTIENTS = (arith.CeilDivSIOp, arith.FloorDivSIOp)
# Numbers are of 32 bits.
_LIMIT = 1 << 31


@anchored(scf.ForOp)
def erase_empty_loops(kernel: KernelOp, pass_name: str) -> None:
    """Erase the loops without a trip, and what only they took; what they give is what they begin
    with.
    """
    known: dict[SSAValue, int | None] = {}
    empty = [loop for loop in ops_of(kernel, scf.ForOp) if _is_empty(loop, known)]
    outermost = [loop for loop in empty if not any(each in empty for each in ops_around(loop))]
    for loop in outermost:
        if len(loop.body.block.ops) > 1:
            remark(pass_name, loop, "loop dropped: its bounds are constants, and it has no trip")
        for result, initial in zip(loop.results, loop.iter_args, strict=True):
            result.replace_all_uses_with(initial)
        erase(loop)
    if empty:
        sweep(kernel.body.block)


def _is_empty(loop: scf.ForOp, known: dict[SSAValue, int | None]) -> bool:
    """Whether a loop's bounds are constants of which the first is not below the last."""
    low, high = _number(loop.lb, known), _number(loop.ub, known)
    return low is not None and high is not None and low >= high


def _number(value: SSAValue, known: dict[SSAValue, int | None]) -> int | None:
    """What a scalar is that is computed from constants; None for any other."""
    if value in known:
        return known[value]
    number, op = constant_of(value), value.owner
    compute = _COMPUTED.get(type(op)) if isinstance(op, Operation) else None
    if number is None and compute is not None:
        left, right = (_number(operand, known) for operand in op.operands)
        # Where this divides by 0, a program has no result.
        if left is not None and right is not None and (right or not isinstance(op, _QUOTIENTS)):
            number = compute(left, right)
            number = number if abs(number) < _LIMIT else None
    known[value] = number
    return number
