"""The choices that a schedule leaves open, made from the kernel's own ops."""

from __future__ import annotations

from functools import partial
from math import prod

from xdsl.ir import SSAValue

from cutedialect.allocation import computing_registers, multiplying_warps, reading_warps
from cutedialect.atoms import target
from cutedialect.atoms.tcgen05_atoms import Tcgen05Atom
from cutedialect.atoms.wgmma_atoms import WgmmaAtom
from cutedialect.dialects import cute
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.analysis.layout_inference import contiguous_mode, takes_async_copy
from cutedialect.passes.analysis.memory_views import tensor_dependences
from cutedialect.passes.analysis.mma_choice import MmaChoice
from cutedialect.passes.analysis.resource_plan import registers_of_accumulators
from cutedialect.passes.analysis.role_plan import loads_boxes
from cutedialect.passes.analysis.tensor_accumulators import tensor_plan
from cutedialect.passes.remarks import remark
from cutedialect.passes.tile.streaming import is_common, order_of_stores, residence_of
from cutedialect.schedule import Schedule, replace_set

# Warp grids by accumulator extent: each warp gets a block of up to 64 x 64 (m16n8 atoms reuse
# every operand register that often), and no block has more than 8 warps.
_WARP_BLOCK = (64, 64)
_DEFAULT_WARPS = (4, 1)
_MOST_WARPS = 8
_PLAIN_GRIDS = ((4, 2), (4, 1), (2, 2), (2, 1), (1, 2), (1, 1))
# Accumulators of a thread beside which operands and addresses still find registers, and elements
# of the next operands that it copies one by one.
_MOST_VALUES = 128
# The same beside sums of earlier trips, whose scales and operands a thread holds, too.
_MOST_BESIDE_SUMS = 96
_MOST_COPIED = 64
_GROUP_WARPS = 4
_BYTE = 8
_TMA_TARGET = 90
# Elements of accumulators that a thread adds to in registers, of a kernel whose threads copy.
_MOST_SUMMED_WHILE_COPYING = 64

_remark = partial(remark, "cute-tile")


def complete(kernel: cute.KernelOp, given: Schedule, arch: str) -> Schedule:
    """`given` with warps, roles, raster and scheduler filled in, and the epilogue, which is open
    where all warps multiply. Stages and registers are allocated behind the roles.
    """
    gemms = ops_of(kernel, cute.GemmOp)
    # Programs without a multiply stream through rings only where a schedule asks for it.
    asks_for_roles = given.roles is not None or given.epilogue == "tma"
    if not given.is_uniform and (gemms or asks_for_roles):
        choose = _multiplying if gemms else _streaming
        plan = choose(kernel, gemms, given, arch)
        if plan is not None:
            return replace_set(Schedule(), plan).merged(given)
    choices: dict[str, object] = {
        "roles": "uniform",
        "scheduler": "single",
        "raster": 8,
    }
    if gemms:
        shape = cute.fragment_of(gemms[0].acc).shape
        # Rows alone, 16 a warp: a row's results and the operand made of them stay in a warp.
        warps = max(1, min(_MOST_WARPS, shape[0] // 16)), 1
        if not _is_chained(gemms):
            # Tiles like the accumulator that are loaded to registers lie beside it there.
            loads = ops_of(kernel, cute.LoadOp)
            has_addend = any(cute.shape_of(op.result.type) == shape for op in loads)
            # So do the sums of other CTAs that share a tile, added in order.
            has_addend |= given.adds_in_order
            sums = _sums(kernel, gemms, shape)
            tiles = len({op.acc for op in gemms} | sums) + has_addend + _reads_turned_bytes(gemms)
            held = _held_values(gemms)
            most = _MOST_BESIDE_SUMS if sums or held else _MOST_VALUES
            warps = _thread_warps(shape, tiles, _copied_values(gemms, arch), held, most)
        choices["warps"] = _dividing(gemms, warps, given, arch)
    else:
        residence = residence_of(kernel, given, arch)
        choices |= {"epilogue": "direct", "warps": residence.warps}
        if residence.ctas is not None:
            choices["ctas"] = residence.ctas
        # Tiles of one row follow each other: their rows lie together in memory.
        choices["raster"] = 1
        order = order_of_stores(kernel)
        if order is not None:
            choices["order"] = order
    return replace_set(Schedule(), choices).merged(given)


def _multiplying(
    kernel: cute.KernelOp, gemms: list[cute.GemmOp], given: Schedule, arch: str
) -> dict[str, object] | None:
    """A loading warp and computing warpgroups, where every multiply is one of warpgroups, or one
    into tensor memory, which warpgroups only read.
    """
    choices = [MmaChoice(op, arch, given.multiply) for op in gemms]
    on_tensor = _tensor_warps(gemms, choices, given)
    warps = on_tensor or _warps_of_groups(kernel, gemms, choices, given)
    if warps is None:
        return None
    stored = tensor_dependences(kernel)
    again = [op for op in gemms if any(stored.reads_stored(op, tile) for tile in (op.a, op.b))]
    if again:
        _remark(
            again[0],
            "no loading warps: an operand of this multiply is a tile that the kernel stores before",
        )
        return None
    plan = _plan(warps, given)
    if on_tensor is None and _is_chained(gemms):
        plan |= {"overlap": "yes", "split_loops": "yes"}
    return plan


def _tensor_warps(
    gemms: list[cute.GemmOp], choices: list[MmaChoice], given: Schedule
) -> tuple[int, int] | None:
    """The warps that read accumulators from tensor memory; None where a multiply does not write to
    it, or where threads that copy would add to too much in registers.
    """
    acc = cute.fragment_of(gemms[0].acc)
    grids = [given.warps] if given.warps is not None else _tensor_grids(acc.shape)
    taken = [grid for grid in grids if all(choice.takes(Tcgen05Atom, grid) for choice in choices)]
    if not taken:
        return None
    summed = tensor_plan(gemms[0]).summed // (32 * prod(taken[0]))
    if summed <= _MOST_SUMMED_WHILE_COPYING or loads_boxes(gemms, given):
        return taken[0]
    _remark(
        gemms[0],
        "no multiplies into tensor memory: a thread would add to "
        f"{summed} elements in registers, and threads that copy leave it "
        f"{_MOST_SUMMED_WHILE_COPYING}",
    )
    return None


def _warps_of_groups(
    kernel: cute.KernelOp, gemms: list[cute.GemmOp], choices: list[MmaChoice], given: Schedule
) -> tuple[int, int] | None:
    """The warps of the warpgroups that multiply; None where an atom of theirs does not take every
    multiply.
    """
    teams, shared = given.plan.teams, (_MOST_WARPS, 1)
    warps = given.warps or multiplying_warps(cute.fragment_of(gemms[0].acc).shape, teams)
    is_lone = warps == (_GROUP_WARPS, 1) and given.warps is None and teams == 1
    # One warpgroup may have no registers for all that lives at one time.
    if is_lone and registers_of_accumulators(kernel) > 32 * prod(warps) * computing_registers(0, 1):
        warps = shared if all(choice.takes(WgmmaAtom, shared) for choice in choices) else warps
    return warps if all(choice.takes(WgmmaAtom, warps) for choice in choices) else None


def _streaming(
    kernel: cute.KernelOp, gemms: list[cute.GemmOp], given: Schedule, arch: str
) -> dict[str, object] | None:
    """Loading warps and a computing warpgroup, where every tile can be copied asynchronously."""
    if target(arch).number < _TMA_TARGET:
        return None
    loads = ops_of(kernel, cute.LoadOp)
    stored = tensor_dependences(kernel)
    again = [op for op in loads if stored.reads_stored(op, op.source)]
    if again:
        _remark(
            again[0],
            "tile not loaded ahead by TMA: the kernel itself stores to the tensor before",
        )
    gathers = [op for op in loads if isinstance(op.source.owner, cute.IndexedTileOp)]
    if gathers:
        _remark(
            gathers[0],
            "no loading warps: the rows of this tile are numbered by a tile in registers",
        )
        return None
    # What all work items load alike stays in L2, and is loaded where it is used.
    tiles = [op for op in loads if op not in again and not is_common(op.source)]
    for op in tiles:
        type_ = cute.memref_of(op.source)
        if not takes_async_copy(type_, arch):
            _remark(
                op,
                "no loading warps: expected a tile of rank 2 with a contiguous mode that can be "
                f"copied 4 bytes or more at once, got {type_}",
            )
            return None
    if not tiles:
        return None
    if any(
        isinstance(op, cute.CopyOp) and isinstance(op.source.type, cute.MemRefType)
        for op in walk(kernel)
    ):
        return None
    return _plan(_DEFAULT_WARPS, given)


def _plan(warps: tuple[int, int], given: Schedule) -> dict[str, object]:
    """What the plans with a loading warp share."""
    return {
        "roles": "specialized",
        "scheduler": "persistent",
        "raster": 8,
        "warps": warps,
        "epilogue": given.epilogue or "tma",
    }


def _tensor_grids(tile: tuple[int, ...]) -> list[tuple[int, int]]:
    """The warps that may read a tile of tensor memory, best first: two warpgroups share the columns
    where one has no room for what is added to in registers.
    """
    rows, columns = reading_warps(tile)
    shared = (rows, 2 * columns)
    return [(rows, columns), *([shared] if prod(shared) <= _MOST_WARPS else [])]


def _is_chained(gemms: list[cute.GemmOp]) -> bool:
    """Whether a multiply takes a register tile, made of rows of another's accumulator."""
    return any(isinstance(gemm.a.type, cute.FragmentType) for gemm in gemms)


def _dividing(
    gemms: list[cute.GemmOp], warps: tuple[int, int], given: Schedule, arch: str
) -> tuple[int, int]:
    """`warps`, or fewer: as many as have a grid on the tile of every multiply; else the first of
    the plainer grids that has.
    """

    def divides(grid: tuple[int, int]) -> bool:
        try:
            return all(MmaChoice(op, arch, given.multiply, False).bind(grid) for op in gemms)
        except ValueError:
            return False

    fewer = [(max(1, warps[0] >> halves), warps[1]) for halves in range(warps[0].bit_length())]
    return next(filter(divides, (*fewer, *_PLAIN_GRIDS)), warps)


def _sums(kernel: cute.KernelOp, gemms: list[cute.GemmOp], shape: tuple[int, ...]) -> set[SSAValue]:
    """Register tiles as large as the accumulator to which products of a trip are added."""
    tiles: set[SSAValue] = {op.result for op in ops_of(kernel, cute.AllocFragmentOp)}
    large = {x for x in tiles if cute.shape_of(x.type) == shape}
    return large - {op.acc for op in gemms}


def _reads_turned_bytes(gemms: list[cute.GemmOp]) -> bool:
    """Whether threads put fragments of operands of bytes together that no `ldmatrix` loads, beside
    scales of blocks.
    """
    types = [each.type for op in gemms if op.scales is not None for each in (op.a, op.b)]
    memory = [type_ for type_ in types if isinstance(type_, cute.MemRefType)]
    return any(type_.bits == _BYTE and contiguous_mode(type_) == 0 for type_ in memory)


def _copied_values(gemms: list[cute.GemmOp], arch: str) -> int:
    """Elements of one stage that pass through registers."""
    types = [tile.type for tile in {tile for op in gemms for tile in (op.a, op.b)}]
    tiles = [type_ for type_ in types if isinstance(type_, cute.MemRefType)]
    return sum(prod(type_.shape) for type_ in tiles if not takes_async_copy(type_, arch))


def _held_values(gemms: list[cute.GemmOp]) -> int:
    """Elements of right operands that threads compute in registers: those of a warp's columns,
    which the warps of its column of the grid hold alike.
    """
    types = [tile.type for tile in {op.b for op in gemms}]
    return sum(prod(type_.shape) for type_ in types if isinstance(type_, cute.FragmentType))


def _thread_warps(
    tile: tuple[int, ...], tiles: int, copied: int, held: int, most: int
) -> tuple[int, int]:
    """`gemm_warps`, with more rows of warps where a thread would hold too much of its tiles, or
    more columns, which divide operands that it `held` in registers, too.
    """
    rows, columns = gemm_warps(tile)

    def is_too_much() -> bool:
        threads, values = 32 * rows * columns, tiles * tile[0] * tile[1]
        if held:
            return values + copied + held * rows > most * threads
        return max(values / most, copied / _MOST_COPIED) > threads

    while is_too_much() and 2 * rows * columns <= _MOST_WARPS:
        if held and tile[1] % (2 * columns * 8) == 0:
            columns *= 2
        elif tile[0] % (2 * rows * 16) == 0:
            rows *= 2
        else:
            break
    return rows, columns


def gemm_warps(tile: tuple[int, ...]) -> tuple[int, int]:
    """Warp grid of an accumulator tile: 64 x 64 for each warp, at least 2 x 2 where it divides."""
    counts: list[int] = []
    for extent, block, unit in zip(tile[:2], _WARP_BLOCK, (16, 8), strict=True):
        count = max(1, extent // block)
        if count == 1 and extent % (2 * unit) == 0 and extent >= 4 * unit:
            count = 2
        counts.append(count)
    return counts[0], counts[1]
