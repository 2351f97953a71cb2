"""The pass `convert-to-ptx`: each thread-level `cute.kernel` becomes a `ptx.kernel` of its name,
and so does each kernel of a `gpu.module`.

    cute.kernel @k(%x: !cute.memref<f32, gmem, align<16>, "(?):(1)">) attributes {...}

becomes `ptx.kernel @k(%0: b64, %1: b32)`: for each memref a pointer, its dynamic extents, its
dynamic strides; then `cute.launch` of the host part learns the bytes of shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

import xdsl.context
from xdsl.dialects.builtin import FileLineColLoc, IntegerAttr, ModuleOp, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from cutedialect.atoms import Target, target
from cutedialect.dialects import cute, ptx
from cutedialect.dialects.cute_nvgpu import TmaDescriptorType, WriteOnesOp
from cutedialect.dialects.walks import holds, ops_of
from cutedialect.layout import Dyn, flatten
from cutedialect.passes.analysis.resource_plan import scratch_bytes
from cutedialect.passes.rewriting import sweep

from . import (
    cluster_reductions,
    control,
    cooperation,
    groups,
    places,
    rings,
    roles,
    scans,
    sorts,
    tensor_memory,
    tile_copies,
    tile_math,
    tile_views,
    tma,
)
from .context import Context, Team, fail, scalar_class
from .lowering import KernelLowering
from .scalar_builder import ScalarBuilder

__all__ = ["ConvertToPtxPass"]
_ERASABLE = {ptx.ScalarOp, ptx.ImmOp, ptx.SpecialOp, ptx.SmemBaseOp, ptx.PackOp, ptx.UnpackOp}
_ERASABLE |= {ptx.RegArrayOp, ptx.MapaOp, ptx.GetOp}
# Shared memory that barriers take at most.
_BARRIER_BYTES = 1024
# The same without what warps exchange for reductions.
_LEAST_BARRIER_BYTES = 512
# Rows, columns and stages of a buffer.
_RING_RANK = 3
# The first target whose kernels may start before the one in front of them ends.
_EARLY_TARGET = 90
_HANDLERS = (
    cluster_reductions.HANDLERS
    | control.HANDLERS
    | cooperation.HANDLERS
    | groups.HANDLERS
    | rings.HANDLERS
    | roles.HANDLERS
    | places.HANDLERS
    | scans.HANDLERS
    | sorts.HANDLERS
    | tensor_memory.HANDLERS
    | tile_copies.HANDLERS
    | tile_math.HANDLERS
    | tile_views.HANDLERS
    | tma.HANDLERS
)


@dataclass(frozen=True)
class ConvertToPtxPass(ModulePass):
    """Turn thread-level kernels into the `ptx` dialect for one target."""

    name = "convert-to-ptx"

    arch: str = "sm_80"

    def apply(self, ctx: xdsl.context.Context, op: ModuleOp) -> None:
        del ctx
        try:
            target(self.arch)
        except ValueError as error:
            raise PassFailedException(op, f"convert-to-ptx: {error}") from error
        smem: dict[str, IntegerAttr] = {}
        for kernel in [each for each in op.body.block.ops if isinstance(each, cute.KernelOp)]:
            lowered = lower_kernel(kernel, self.arch)
            smem[kernel.sym_name.data] = lowered.smem or IntegerAttr(0, i32)
            Rewriter.insert_op(lowered, InsertPoint.before(kernel))
            # Nothing outside of it knows of what it holds, which goes with it.
            kernel.detach()
        for device in [each for each in op.body.block.ops if each.name == "gpu.module"]:
            from .device_functions import lower_module

            lowered = lower_module(device, lambda kernel: lower_kernel(kernel, self.arch))
            Rewriter.insert_op(lowered, InsertPoint.before(device))
            device.detach()
        for host in op.body.block.ops:
            for launch in () if isinstance(host, ptx.KernelOp) else ops_of(host, cute.LaunchOp):
                if launch.kernel.string_value() in smem:
                    launch.properties["smem"] = smem[launch.kernel.string_value()]


def lower_kernel(op: cute.KernelOp, arch: str) -> ptx.KernelOp:
    """The `ptx.kernel` of a thread-level kernel; `PassFailedException` at the op that has none."""
    if op.threads is None:
        raise fail(op, "expected the attribute threads (the block size), got none")
    chip, threads = target(arch), op.threads.value.data
    entry = Block(arg_types=[type_ for arg in op.body.block.args for type_ in _types(arg)])
    team = Team(threads, around=op)
    context = Context(ScalarBuilder(entry, chip), team, arch, not holds(op, cute.GemmOp))
    schedule = None if op.schedule is None else op.schedule.data
    context.resident = 1 if schedule is None else schedule.ctas or 1
    context.is_early = schedule is not None and schedule.early_launch == "yes"
    if context.is_early and chip.number < _EARLY_TARGET:
        raise fail(
            op,
            f"expected a target from sm_{_EARLY_TARGET} on with early_launch = yes, got {arch}; "
            "leave it out or take early_launch = no",
        )
    lowering = KernelLowering(op, context, _HANDLERS)
    context.builder.at(op)
    lowering.bind_parameters(entry.args)
    buffers = [each for each in op.body.block.ops if isinstance(each, cute.AllocSmemOp)]
    _place_buffers(lowering, op, buffers, chip)
    lowering.run(op.body.block)
    smem = context.smem.used
    if smem > chip.smem_per_cta:
        raise _too_large(op, buffers, smem, chip)
    sweep(entry, lambda each: _is_erasable(type(each)) or groups.only_reads_table(each))
    cluster = None if op.cluster is None else (op.cluster.value.data, 1, 1)
    kernel = ptx.KernelOp(op.sym_name.data, Region(entry), arch, threads, smem, cluster=cluster)
    # Without a minimum of CTAs, ptxas trades a few spills for a CTA more on each multiprocessor.
    kernel.properties["min_ctas"] = IntegerAttr(context.resident, i32)
    kernel.location = op.location
    return kernel


def _place_buffers(
    lowering: KernelLowering, op: cute.KernelOp, buffers: Sequence[cute.AllocSmemOp], chip: Target
) -> None:
    """Give places to buffers ahead of what comes later, where gaps between them take too much."""
    smem = lowering.context.smem
    # The area of the buffers that share storage comes first.
    places = [place for buffer in buffers if (place := buffer.place) is not None]
    smem.used = max((place.stop for place in places), default=0)
    ones = [each.tile.owner for each in ops_of(op, WriteOnesOp)]
    unplaced = [buffer for buffer in buffers if buffer.place is None and buffer not in ones]
    beside = max(_BARRIER_BYTES, _LEAST_BARRIER_BYTES + scratch_bytes(op))
    if ones or _has_gaps(unplaced, chip.smem_per_cta - smem.used, beside):
        # Tiles of ones, barriers and what warps exchange leave no room for gaps.
        for buffer in sorted(unplaced, key=lambda op: (-op.result.type.alignment, -op.bytes)):
            lowering.places[buffer] = smem.take(buffer.bytes, buffer.result.type.alignment)


def _too_large(
    op: cute.KernelOp, buffers: Sequence[cute.AllocSmemOp], smem: int, chip: Target
) -> PassFailedException:
    """The error for a kernel that needs so many bytes of shared memory, at its largest buffer: what
    that holds, and of which size all tiles fit.
    """
    limit = chip.smem_per_cta
    # A ring's last mode is its stages; without all but one of each there is so much less.
    rings = [each for each in buffers if each.result.type.rank == _RING_RANK]
    less = sum(each.bytes - each.bytes // each.result.type.shape[-1] for each in rings)
    stages = " or fewer stages" if less and smem - less <= limit else ""
    expected = f"expected at most {limit} bytes of shared memory on {chip.name}, got {smem}"
    largest = max(buffers, key=lambda each: each.bytes, default=None)
    if largest is None:
        return fail(op, f"{expected}; take a smaller tile{stages}")
    type_ = largest.result.type
    count = type_.shape[-1] if type_.rank == _RING_RANK else 1
    held = f"{count} stages of " if count != 1 else ""
    tile = [prod(flatten((mode,))) for mode in type_.shape[:2]]
    shown, parts = " x ".join(map(str, tile)), 1
    while smem > limit * parts and max(tile) > 1:
        tile[tile.index(max(tile))] //= 2
        parts *= 2
    fitting = " x ".join(map(str, tile))
    place = largest if isinstance(largest.location, FileLineColLoc) else op
    return fail(
        place,
        f"{expected}, of which {largest.bytes} hold {held}{shown} elements; take tiles of "
        f"1/{parts} of the elements, such as {fitting} for these{stages}",
    )


def _has_gaps(buffers: Sequence[cute.AllocSmemOp], free: int, beside: int) -> bool:
    """Whether the gaps between buffers, in their order, take the room of bytes `beside` them."""
    used = 0
    for each in buffers:
        alignment = each.result.type.alignment
        used = -(-used // alignment) * alignment + each.bytes
    return sum(each.bytes for each in buffers) <= free < used + beside


@cache
def _is_erasable(kind: type[Operation]) -> bool:
    return not _ERASABLE.isdisjoint(kind.__mro__)


def _types(arg: SSAValue) -> list[Attribute]:
    """The types of the parameters that an argument of a kernel becomes."""
    type_ = arg.type
    if type_.name == "llvm.struct":
        from .structs import class_of_leaf, leaves_of

        return [ptx.reg(class_of_leaf(leaf)) for _, leaf in leaves_of(type_)]
    if isinstance(type_, TmaDescriptorType):
        return [ptx.TENSOR_MAP]
    if isinstance(type_, cute.GroupType):
        return [ptx.B64, ptx.B32]
    if not isinstance(type_, cute.MemRefType):
        cls = scalar_class(type_)
        return [ptx.reg("b32" if cls == "pred" else cls)]
    extents = [ptx.B32 for leaf in flatten(type_.layout.shape) if isinstance(leaf, Dyn)]
    strides = [ptx.B64 for leaf in flatten(type_.layout.stride) if isinstance(leaf, Dyn)]
    return [ptx.B64, *extents, *strides]
