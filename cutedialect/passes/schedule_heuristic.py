"""The choices that a schedule leaves open, made from the kernel's own ops."""

from __future__ import annotations

from cutedialect.atoms import target
from cutedialect.dialects.cute import CopyOp, FragmentType, GemmOp, KernelOp, MemRefType
from cutedialect.passes.mma_choice import takes_wgmma
from cutedialect.passes.tensor_maps import has_tensor_map, tile_of_tensor
from cutedialect.schedule import Schedule, replace_set

# Warp grids by accumulator extent: each warp gets a block of up to 64 x 64 (m16n8 atoms reuse
# every operand register that often), and no block has more than 8 warps.
_WARP_BLOCK = (64, 64)
_DEFAULT_WARPS = (4, 1)
_MOST_STAGES = 4
# A warpgroup multiplies blocks of 64 rows; more stages than this hide no more latency.
_GROUP_ROWS = 64
_MOST_RING = 8
_BARRIER_BYTES = 1024
_LINE = 128
# Registers for each thread of (loading, computing) warpgroups, by the number of the latter: the
# sum over a CTA stays within the register file of 65,536.
_REGISTERS = {1: (56, 256 - 8), 2: (40, 232), 3: (32, 160)}


def complete(kernel: KernelOp, given: Schedule, arch: str) -> Schedule:
    """`given` with warps, stages, roles, raster, scheduler and epilogue filled in."""
    gemms = [op for op in kernel.walk() if isinstance(op, GemmOp)]
    if gemms and given.roles != "uniform":
        specialized = _specialized(kernel, gemms, given, arch)
        if specialized is not None:
            return specialized
    choices: dict[str, object] = {
        "roles": "uniform",
        "scheduler": "single",
        "raster": 8,
        "epilogue": "direct",
    }
    if gemms:
        acc = gemms[0].acc.type
        assert isinstance(acc, FragmentType)
        choices["warps"] = gemm_warps(acc.shape)
        choices["stages"] = _stages(gemms[0], arch)
    else:
        choices["warps"] = _DEFAULT_WARPS
        choices["stages"] = 2
    return replace_set(Schedule(), choices).merged(given)


def _specialized(
    kernel: KernelOp, gemms: list[GemmOp], given: Schedule, arch: str
) -> Schedule | None:
    """A loading warp and computing warpgroups, where every multiply is one of warpgroups."""
    acc = gemms[0].acc.type
    assert isinstance(acc, FragmentType)
    warps = given.warps or _group_warps(acc.shape)
    if not all(takes_wgmma(op, warps, arch, given.atom) for op in gemms):
        return None
    epilogue = given.epilogue or "tma"
    choices: dict[str, object] = {
        "roles": "specialized",
        "scheduler": "persistent",
        "raster": 8,
        "warps": warps,
        "epilogue": epilogue,
        "registers": _REGISTERS[min(3, max(1, warps[0] * warps[1] // 4))],
    }
    free = target(arch).smem_per_cta - _BARRIER_BYTES
    if epilogue == "tma":
        free -= _staged_result_bytes(kernel)
    stage = sum(_operand_bytes(gemm) for gemm in gemms)
    choices["stages"] = max(1, min(_MOST_RING, free // max(1, stage)))
    return replace_set(Schedule(), choices).merged(given)


def _group_warps(tile: tuple[int, ...]) -> tuple[int, int]:
    """Warpgroups on 64 rows each, up to two of them."""
    groups = 2 if tile[0] % (2 * _GROUP_ROWS) == 0 else 1
    return 4 * groups, 1


def _staged_result_bytes(kernel: KernelOp) -> int:
    """Shared memory of the results that TMA stores: two lines of each row, or whole tiles."""
    total = 0
    for op in kernel.walk():
        if isinstance(op, CopyOp) and isinstance(op.source.type, FragmentType):
            destination = op.destination.type
            tile = tile_of_tensor(op.destination)
            if isinstance(destination, MemRefType) and tile is not None:
                tensor = tile.tensor.type
                assert isinstance(tensor, MemRefType)
                if has_tensor_map(tensor) and destination.rank == 2:
                    rows, columns = destination.shape
                    row = columns * destination.bits // 8
                    lines = row // _LINE
                    total += rows * (2 * _LINE if lines % 2 == 0 and row % _LINE == 0 else row)
    return total


def _operand_bytes(gemm: GemmOp) -> int:
    """Bytes of one tile of each operand in memory."""
    size = 0
    for operand in (gemm.a, gemm.b):
        type_ = operand.type
        if isinstance(type_, MemRefType):
            rows, depth = type_.shape
            size += rows * depth * type_.bits // 8
    return size


def _stages(gemm: GemmOp, arch: str) -> int:
    """As many stages as shared memory holds, up to 4; a ring of 2 fits or the tile is too large."""
    size = _operand_bytes(gemm)
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
