"""Loops of two trips, run with three. Threads that read ahead for the next trip do so for somebody
once there, and that says nothing of how far ahead: always so many trips, or always the same stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Operation

from cutedialect.dialects.cute import KernelOp
from cutedialect.dialects.walks import walk

from .cases import one_item
from .findings import TRIP, Finding
from .machine import Machine
from .skeleton import skeleton_of
from .steps import walks_of


def strays_of(kernel: KernelOp, ends: Mapping[Operation, int], granule_bytes: int) -> list[Finding]:
    """Reads of other trips' data in a kernel of which some loops end later. Other findings are of
    that kernel alone, and then nothing is said: what knows a loop's trips may be right for these.
    """
    longer = kernel.clone()
    originals = dict(zip(walk(longer), walk(kernel), strict=True))
    for loop, original in originals.items():
        if original in ends:
            assert isinstance(loop, scf.ForOp)
            assert isinstance(loop.ub.owner, arith.ConstantOp)
            loop.ub.owner.properties["value"] = IntegerAttr(ends[original], i32)
    lengthened = skeleton_of(longer, granule_bytes)
    case = one_item(lengthened)
    walks = walks_of(lengthened, case)
    found = Machine(lengthened, case.name, walks).run() if walks.is_whole else []
    if any(finding.code != TRIP for finding in found):
        return []
    return [
        replace(
            finding,
            op=originals[finding.op],
            other=None if finding.other is None else originals[finding.other],
        )
        for finding in found
    ]
