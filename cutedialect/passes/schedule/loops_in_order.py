"""What steps of `cute-schedule-loops` ask that let multiplies of one trip work beside another."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import scf
from xdsl.ir import Operation

from cutedialect.allocation import registers_at_start
from cutedialect.atoms import WARP_SIZE
from cutedialect.dialects.cute import FragmentType, KernelOp
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.analysis.trips import order_of

ONE_STAGE = "one stage holds no trip but one"
"""Why a trip keeps its order where rings have one stage."""
_REGISTER_BITS = 32


def loops_in_order(kernel: KernelOp) -> Iterator[scf.ForOp]:
    """The loops that carry no value. Those for whose ops somebody has written places keep them."""
    for loop in ops_of(kernel, scf.ForOp):
        if not loop.iter_args and all(order_of(op) is None for op in loop.body.block.ops):
            yield loop


def registers_of(tile: FragmentType) -> int:
    """The registers that a thread holds a tile in."""
    return -(-tile.values * tile.bits // _REGISTER_BITS)


def lacked(kernel: KernelOp, wanted: int) -> str:
    """What is said of a thread that computes and has fewer registers; empty where it has them."""
    assert kernel.threads is not None
    given = kernel.choices.registers
    warps = kernel.threads.value.data // WARP_SIZE * (kernel.choices.ctas or 1)
    has = registers_at_start(warps) if given is None else given[1]
    return "" if wanted <= has else f"{wanted} registers of a thread for them, got {has}"


def dependence(wrong: tuple[Operation, Operation]) -> str:
    """What is said of an op and the one behind it that depends on it and would come before it."""
    return f"{wrong[1].name} depends on a {wrong[0].name} that would come behind it"
