"""The choices that a schedule leaves open, made from the kernel's own ops."""

from __future__ import annotations

from cutedialect.atoms import target
from cutedialect.dialects.cute import FragmentType, GemmOp, KernelOp, MemRefType
from cutedialect.schedule import Schedule, replace_set

# Warp grids by accumulator extent: each warp gets a block of up to 64 x 64 (m16n8 atoms reuse
# every operand register that often), and no block has more than 8 warps.
_WARP_BLOCK = (64, 64)
_DEFAULT_WARPS = (4, 1)
_MOST_STAGES = 4


def complete(kernel: KernelOp, given: Schedule, arch: str) -> Schedule:
    """`given` with warps, stages, raster, roles and epilogue filled in."""
    gemms = [op for op in kernel.walk() if isinstance(op, GemmOp)]
    choices: dict[str, object] = {"roles": "uniform", "raster": 8, "epilogue": "direct"}
    if gemms:
        acc = gemms[0].acc.type
        assert isinstance(acc, FragmentType)
        choices["warps"] = gemm_warps(acc.shape)
        choices["stages"] = _stages(gemms[0], arch)
    else:
        choices["warps"] = _DEFAULT_WARPS
        choices["stages"] = 2
    return replace_set(Schedule(), choices).merged(given)


def _stages(gemm: GemmOp, arch: str) -> int:
    """As many stages as shared memory holds, up to 4; a ring of 2 fits or the tile is too large."""
    size = 0
    for operand in (gemm.a, gemm.b):
        type_ = operand.type
        if isinstance(type_, MemRefType):
            rows, depth = type_.shape
            size += rows * depth * type_.bits // 8
    return max(2, min(_MOST_STAGES, target(arch).smem_per_cta // max(1, size)))


def gemm_warps(tile: tuple[int, ...]) -> tuple[int, int]:
    """Warp grid of an accumulator tile: 64 x 64 for each warp, at least 2 x 2 where it divides."""
    counts: list[int] = []
    for extent, block, unit in zip(tile[:2], _WARP_BLOCK, (16, 8), strict=True):
        count = max(1, extent // block)
        if count == 1 and extent % (2 * unit) == 0 and extent >= 4 * unit:
            count = 2
        counts.append(count)
    return counts[0], counts[1]
