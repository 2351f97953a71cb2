"""What the warpgroups of a kernel that multiplies do with registers, as the facts by which these
are allocated (`allocation.registers_of_roles`): of a kernel whose operands are still tiles of
global memory, for who binds them, and of one whose ops have roles, by which they are allocated.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from cutedialect.allocation import RoleUse
from cutedialect.dialects import cute
from cutedialect.dialects.effects import Unit, effects_of
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.analysis.layout_inference import contiguous_mode
from cutedialect.passes.analysis.mma_choice import is_prepared, needs_shifting
from cutedialect.passes.analysis.role_plan import is_load, is_preparing
from cutedialect.passes.analysis.smem_layouts import staging_layout
from cutedialect.passes.analysis.tensor_maps import boxes_of, part_of
from cutedialect.plans import WARPS_OF_GROUP
from cutedialect.schedule import Schedule

ADDS_PRODUCTS = "cute.adds_products"
"""The attribute of a kernel whose threads add what tensor memory holds to sums in registers."""
_WARP = 32


def loads_boxes(gemms: Sequence[cute.GemmOp], schedule: Schedule) -> bool:
    """Whether TMA brings all operands in global memory."""
    tiles = [tile for op in gemms for tile in (op.a, op.b)]
    return schedule.loads != "threads" and all(
        _comes_by_tma(tile) for tile in tiles if isinstance(tile.type, cute.MemRefType)
    )


def _comes_by_tma(tile: SSAValue) -> bool:
    """Whether a tile of rank 2 can be loaded as boxes."""
    type_ = part_of(tile)
    if type_.rank != 2:
        return False
    layout, _, _ = staging_layout(cute.shape_of(tile.type), contiguous_mode(type_), type_.bits)
    return not isinstance(boxes_of(tile, type_.shape, layout), str)


def use_of_operands(kernel: cute.KernelOp, in_tensor_memory: bool) -> RoleUse:
    """The facts of a kernel whose operands are tiles of global memory."""
    gemms, schedule = ops_of(kernel, cute.GemmOp), kernel.choices
    operands = [(op, tile) for op in gemms for tile in (op.a, op.b)]
    copying = "shifts" if any(needs_shifting(op, tile) for op, tile in operands) else "copies"
    return RoleUse(
        computing=_computing(kernel),
        multiplies=len(gemms),
        loads="boxes" if loads_boxes(gemms, schedule) else copying,
        prepares=any(is_prepared(op, tile) for op, tile in operands),
        in_tensor_memory=in_tensor_memory,
        adds=ADDS_PRODUCTS in kernel.attributes,
        ctas=schedule.ctas or 1,
    )


def use_of_copies(kernel: cute.KernelOp) -> RoleUse:
    """The facts of a kernel whose operands are copied to shared memory, by atoms."""
    gemms, copies = ops_of(kernel, cute.GemmOp), ops_of(kernel, cute.CopyOp)
    preparing = [op for op in copies if is_preparing(op)]
    by_boxes = all(effects_of(op).unit is Unit.TMA_LOAD for op in copies if is_load(op))
    copying = "shifts" if any(op.origin is not None for op in preparing) else "copies"
    return RoleUse(
        computing=_computing(kernel),
        multiplies=len(gemms),
        loads="boxes" if by_boxes else copying,
        prepares=bool(preparing),
        in_tensor_memory=any(effects_of(op).unit is Unit.TCGEN05 for op in gemms),
        adds=ADDS_PRODUCTS in kernel.attributes,
        ctas=kernel.choices.ctas or 1,
    )


def _computing(kernel: cute.KernelOp) -> int:
    """Warpgroups of all teams that compute."""
    assert kernel.threads is not None
    return kernel.choices.plan.teams * kernel.threads.value.data // (_WARP * WARPS_OF_GROUP)
