"""Accumulators that change between multiplies into tensor memory: the products alone are there, and
registers add them up.

    gemm a, b, acc
    =>
    fill t, 0; gemm a, b, t; copy acc + t, acc
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute

from cutedialect.dialects import cute
from cutedialect.dialects.walks import walk
from cutedialect.passes.bind.corrections import correction_of, corrects
from cutedialect.passes.bind.mma_choice import takes_tcgen05
from cutedialect.passes.bind.tensor_accumulators import Insert, accumulation_of
from cutedialect.passes.rewriting import erase
from cutedialect.schedule import Schedule


def sum_in_registers(kernel: cute.KernelOp, schedule: Schedule, arch: str, insert: Insert) -> None:
    """Give each multiply into tensor memory an accumulator that lives there while it is added
    to.
    """
    if schedule.roles == "uniform" or schedule.warps is None:
        return
    may_correct = corrects(kernel)
    for op in list(walk(kernel.body.block)):
        if not isinstance(op, cute.GemmOp) or not isinstance(op.acc.type, cute.FragmentType):
            continue
        stays = accumulation_of(op.acc) is not None
        stays = stays or (may_correct and correction_of(op.acc) is not None)
        if not stays and takes_tcgen05(op, schedule.warps, arch, op.asked or schedule.atom):
            _sum(op, insert)


def _sum(op: cute.GemmOp, insert: Insert) -> None:
    """Multiply into a new accumulator, and add the product to the old one."""
    type_ = cute.fragment_of(op.acc)
    element = type_.element
    product = insert(cute.AllocFragmentOp(type_), op).results[0]
    zero: Attribute
    if isinstance(element, AnyFloat):
        zero = FloatAttr(0.0, element)
    else:
        assert isinstance(element, IntegerType)
        zero = IntegerAttr(0, element)
    insert(cute.FillOp(product, insert(arith.ConstantOp(zero), op).results[0]), op)
    insert(cute.GemmOp(op.a, op.b, product, op.atom), op)
    subtracts = op.negate is not None and len(op.negate.data) == 1
    if isinstance(element, AnyFloat):
        total = arith.SubfOp if subtracts else arith.AddfOp
    else:
        total = arith.SubiOp if subtracts else arith.AddiOp
    added = insert(cute.MapOp.of(total, [op.acc, product], type_), op).results[0]
    insert(cute.CopyOp(added, op.acc), op)
    erase(op)
