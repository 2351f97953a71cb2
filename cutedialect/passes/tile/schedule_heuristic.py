"""The choices that a schedule leaves open, made from the kernel's own ops."""

from __future__ import annotations

from functools import partial
from math import prod

from xdsl.ir import Attribute, Block, SSAValue

from cutedialect.atoms import target
from cutedialect.atoms.tcgen05_atoms import Tcgen05Atom
from cutedialect.atoms.wgmma_atoms import WgmmaAtom
from cutedialect.dialects import cute
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.analysis.layout_inference import (
    around_layout,
    contiguous_mode,
    takes_async_copy,
)
from cutedialect.passes.analysis.memory_views import tensor_dependences
from cutedialect.passes.analysis.mma_choice import (
    MmaChoice,
    is_prepared,
    multiplied_element,
    needs_shifting,
    tensor_warps,
)
from cutedialect.passes.analysis.multiply_pairs import multiplies_in_pairs
from cutedialect.passes.analysis.resource_plan import registers_of_accumulators
from cutedialect.passes.analysis.results import (
    aligned_results,
    bits_of_results,
    bytes_of_buffer,
    has_registers,
    results_by_tma,
)
from cutedialect.passes.analysis.smem_layouts import (
    LEAST_LINE_BITS,
    columns_at_once,
    staging_layout,
)
from cutedialect.passes.analysis.tensor_accumulators import tensor_plan
from cutedialect.passes.analysis.tensor_maps import boxes_of, part_of
from cutedialect.passes.remarks import remark
from cutedialect.passes.tile.split_reduction import summed_bytes
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
_MOST_COPIED = 64
_MOST_STAGES = 4
# A warpgroup multiplies blocks of 64 rows; more stages than this hide no more latency.
_GROUP_ROWS = 64
_GROUP_WARPS = 4
_MOST_RING = 16
_BARRIER_BYTES = 1024
# Buffers of what a role computes for the one that multiplies.
_COMPUTED_STAGES = 2
# Vectors of a number for each row, in two stages each, that a plan of several computing roles has.
_VECTORS = 8
# Bits of elements that threads write to tensor memory as an operand.
_HALF = 16
# Where threads meet between chained multiplies: reductions, columns that change their layout.
_MEETING_BYTES = 2048
_REPEAT = 1024
_TMA_TARGET = 90
# Registers for each thread of (loading, computing) warpgroups, by the number of the latter: the
# sum over a CTA stays within the register file of 65,536.
_REGISTERS = {1: (56, 256 - 8), 2: (40, 232), 3: (32, 160)}
# The same for programs of many multiplies, whose accumulators and operands lie beside each other.
_MANY_REGISTERS = _REGISTERS | {2: (24, 240)}
_FEW_MULTIPLIES = 2
# The same where threads copy some operands: every thread has addresses, and values on their way.
_COPYING_REGISTERS = {1: (56, 256 - 8), 2: (104, 200), 3: (80, 144)}
# And where they shift aligned words into place, of which many are on their way.
_SHIFTING_REGISTERS = _COPYING_REGISTERS | {1: (152, 256 - 8)}
# Where two warpgroups add to accumulators in registers, beside a thread that loads boxes of pages.
_SHARING_REGISTERS = (72, 216)
# Where one warpgroup reads tensor memory, beside one that copies and a warp that multiplies.
_READING_REGISTERS = (136, 232)
# CTAs that an SM holds where all warps do the same.
_BESIDE = 2
# Elements of accumulators that a thread adds to in registers, of a kernel whose threads copy.
_MOST_SUMMED_WHILE_COPYING = 64
# And where warps beside the loading one transpose or convert operands in shared memory.
_PREPARING_REGISTERS = {1: (128, 256 - 8), 2: (72, 216), 3: (56, 152)}


_remark = partial(remark, "cute-tile")


def complete(kernel: cute.KernelOp, given: Schedule, arch: str) -> Schedule:
    """`given` with warps, stages, roles, raster, scheduler and epilogue filled in."""
    gemms = ops_of(kernel, cute.GemmOp)
    # Programs without a multiply stream through rings only where a schedule asks for it.
    asks_for_roles = given.roles is not None or given.epilogue == "tma"
    if not given.is_uniform and (gemms or asks_for_roles):
        choose = _multiplying if gemms else _streaming
        plan = choose(kernel, gemms, given, arch)
        if plan is not None:
            if plan["stages"] == 1 and given.stages is None:
                _remark(
                    (gemms or [kernel])[0],
                    "one stage, so that nothing is loaded ahead: shared memory of "
                    f"{target(arch).smem_per_cta} bytes has no room for a second one",
                )
            return replace_set(Schedule(), plan).merged(given)
    choices: dict[str, object] = {
        "roles": "uniform",
        "scheduler": "single",
        "raster": 8,
        "epilogue": "direct",
    }
    if gemms:
        shape = cute.fragment_of(gemms[0].acc).shape
        # Rows alone, 16 a warp: a row's results and the operand made of them stay in a warp.
        warps = max(1, min(_MOST_WARPS, shape[0] // 16)), 1
        if not _is_chained(gemms):
            # Tiles like the accumulator that are loaded to registers lie beside it there.
            loads = ops_of(kernel, cute.LoadOp)
            has_addend = any(cute.shape_of(op.result.type) == shape for op in loads)
            tiles = len({op.acc for op in gemms}) + has_addend
            warps = _thread_warps(shape, tiles, _copied_values(gemms, arch))
        choices["warps"] = _dividing(gemms, warps, given, arch)
        # As many as shared memory holds, up to 4; a ring of 2 fits or the tile is too large.
        stage, once = _stage_bytes(gemms), _stage_bytes(gemms, once=True)
        free = target(arch).smem_per_cta - once - 2 * _MEETING_BYTES * _is_chained(gemms)
        choices["stages"] = stages = max(2, min(_MOST_STAGES, free // max(1, stage)))
        rings = stages * stage + once
        # Loops over work items keep registers for those.
        is_single = given.scheduler in (None, "single")
        if is_single and _stores_aligned(kernel, choices["warps"], rings, arch):
            choices["epilogue"] = "smem"
    else:
        residence = residence_of(kernel, arch)
        choices["warps"] = residence.warps
        if given.warps is None:
            choices["ctas"] = residence.ctas
        choices["stages"] = 2
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
    acc = cute.fragment_of(gemms[0].acc)
    teams = given.plan.teams
    grids = [given.warps] if given.warps is not None else _tensor_grids(acc.shape)
    choices = [MmaChoice(op, arch, given.atom) for op in gemms]
    taken = [grid for grid in grids if all(choice.takes(Tcgen05Atom, grid) for choice in choices)]
    is_tensor, warps = bool(taken), (taken or grids)[0]
    tiles = [
        tile for op in gemms for tile in (op.a, op.b) if isinstance(tile.type, cute.MemRefType)
    ]
    by_tma = given.loads != "threads" and all(_comes_by_tma(tile) for tile in tiles)
    summed = tensor_plan(gemms[0]).summed // (32 * prod(warps)) if is_tensor else 0
    if not by_tma and summed > _MOST_SUMMED_WHILE_COPYING:
        _remark(
            gemms[0],
            "no multiplies into tensor memory: a thread would add to "
            f"{summed} elements in registers, and threads that copy leave it "
            f"{_MOST_SUMMED_WHILE_COPYING}",
        )
        is_tensor = False
    if not is_tensor:
        warps = given.warps or _group_warps(acc.shape, teams)
        shared = _MOST_WARPS, 1
        if (
            warps == (_GROUP_WARPS, 1)
            and given.warps is None
            and teams == 1
            and registers_of_accumulators(kernel) > 32 * prod(warps) * _REGISTERS[1][1]
            and all(choice.takes(WgmmaAtom, shared) for choice in choices)
        ):
            # One warpgroup has no registers for all that lives at one time.
            warps = shared
        if not all(choice.takes(WgmmaAtom, warps) for choice in choices):
            return None
    stored = tensor_dependences(kernel)
    again = [op for op in gemms if any(stored.reads_stored(op, tile) for tile in (op.a, op.b))]
    if again:
        _remark(
            again[0],
            "no loading warps: an operand of this multiply is a tile that the kernel stores before",
        )
        return None
    prepared = () if is_tensor else (True,)
    halved = is_tensor and multiplies_in_pairs(gemms, warps, arch, given)
    stage, once = (
        sum(_stage_bytes(gemms, once, is_prepared, halved) for is_prepared in (False, *prepared))
        for once in (False, True)
    )
    meeting = _MEETING_BYTES if _is_chained(gemms) else 0
    if given.shares_in_cluster:
        meeting += summed_bytes(kernel, given, warps)
    if is_tensor:
        meeting += _computed_bytes(gemms)
    if is_tensor and not given.may_specialize:
        # Vectors of rows that cross roles, and through which layouts are exchanged.
        meeting += _VECTORS * acc.shape[0] * acc.bits // 8  # pyright: ignore[reportOperatorIssue]
    # Two buffers of what stays while a loop runs, unless the loop is left with one stage.
    if is_tensor and given.may_specialize:
        meeting += _staged_result_bytes(kernel, in_turns=True) - _staged_result_bytes(kernel)
    meeting += 0 if is_tensor else _aligned_bytes(kernel, warps, given)
    plan = _plan(kernel, arch, warps, stage, given, 2 * once + meeting)
    if plan["stages"] == 1:
        plan = _plan(kernel, arch, warps, stage, given, once + meeting)
    if plan["stages"] == 1 and is_tensor:
        # Results leave in fewer columns where registers hold no more: `cute-schedule-loops` counts
        # what they take, and goes back to one stage where that is too much.
        plan = _plan(kernel, arch, warps, stage, given, once + meeting, least_results=True)
    if is_tensor:
        # Accumulators are not in registers: as many as a kernel starts with suffice everywhere, but
        # where two warpgroups add to some.
        shares = summed and prod(warps) == _MOST_WARPS
        if shares and by_tma:
            return plan | {"registers": _SHARING_REGISTERS}
        copies = not by_tma and prod(warps) == _GROUP_WARPS and (given.ctas or 1) == 1
        return plan | ({"registers": _READING_REGISTERS} if copies else {})
    if _is_chained(gemms):
        plan |= {"overlap": "yes", "split_loops": "yes"}
    if (given.ctas or 1) > 1:
        # The CTAs of an SM share its registers: as many as they start with.
        return plan
    registers = _REGISTERS if len(gemms) <= _FEW_MULTIPLIES else _MANY_REGISTERS
    if any(is_prepared(op, tile) for op in gemms for tile in (op.a, op.b)):
        registers = _PREPARING_REGISTERS
    if not by_tma:
        shifts = any(needs_shifting(op, tile) for op in gemms for tile in (op.a, op.b))
        registers = _SHIFTING_REGISTERS if shifts else _COPYING_REGISTERS
    return plan | {"registers": registers[min(3, max(1, teams * warps[0] * warps[1] // 4))]}


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
    # A stage of a vector takes as much as the swizzle repeats in.
    stage = sum(-(-_bytes(op.source.type) // _REPEAT) * _REPEAT for op in tiles)
    # Results whose layout does not split into columns go through shared memory whole.
    whole = sum(_bytes(type_) for type_ in results_by_tma(kernel))
    once = max(0, whole - _staged_result_bytes(kernel))
    return _plan(kernel, arch, _DEFAULT_WARPS, stage, given, once)


def _plan(
    kernel: cute.KernelOp,
    arch: str,
    warps: tuple[int, int],
    stage: int,
    given: Schedule,
    once: int = 0,
    least_results: bool = False,
) -> dict[str, object]:
    """What the plans with a loading warp share: as many stages as shared memory holds, beside
    `once` bytes of tiles that stay while a loop runs, and results, maybe in the fewest columns.
    """
    free = target(arch).smem_of(given.ctas or 1) - _BARRIER_BYTES - once
    epilogue = given.epilogue or "tma"
    if epilogue == "tma":
        free -= given.plan.teams * _staged_result_bytes(kernel, is_least=least_results)
    return {
        "roles": "specialized",
        "scheduler": "persistent",
        "raster": 8,
        "warps": warps,
        "epilogue": epilogue,
        "stages": max(1, min(_MOST_RING, free // max(1, stage))),
    }


def _comes_by_tma(tile: SSAValue) -> bool:
    """Whether a tile of rank 2 can be loaded as boxes."""
    type_ = part_of(tile)
    if type_.rank != 2:
        return False
    layout, _, _ = staging_layout(cute.shape_of(tile.type), contiguous_mode(type_), type_.bits)
    return not isinstance(boxes_of(tile, type_.shape, layout), str)


def _stores_aligned(kernel: cute.KernelOp, warps: tuple[int, int], rings: int, arch: str) -> bool:
    """Whether results go through shared memory in aligned words, which do not cost a second CTA its
    place on a processor.
    """
    buffers = sum(map(bytes_of_buffer, set(aligned_results(kernel))))
    fit = 0 < buffers <= target(arch).smem_of(_BESIDE) - rings
    uniform = Schedule(roles="uniform")
    return fit and has_registers(uniform, 32 * prod(warps), _sums(kernel, warps))


def _aligned_bytes(kernel: cute.KernelOp, warps: tuple[int, int], given: Schedule) -> int:
    """Shared memory of results that go through it in aligned words, beside warps that load."""
    loading = Schedule(roles="specialized").merged(given)
    if given.epilogue == "direct":
        return 0
    # Teams that take turns have buffers of their own, which share no storage with operands.
    teams = given.plan.teams
    if teams == 1 and not has_registers(loading, 32 * prod(warps), _sums(kernel, warps)):
        return 0
    return teams * sum(map(bytes_of_buffer, set(aligned_results(kernel))))


def _sums(kernel: cute.KernelOp, warps: tuple[int, int]) -> int:
    """Accumulators of a thread."""
    sizes = [prod(cute.shape_of(op.acc.type)) for op in ops_of(kernel, cute.GemmOp)]
    return max(sizes, default=0) // (32 * prod(warps))


def _group_warps(tile: tuple[int, ...], teams: int) -> tuple[int, int]:
    """Warpgroups on 64 rows each, up to three in all, or for each team one that holds the tile."""
    if teams > 1:
        return 4, 1
    for groups in (2, 3):
        if tile[0] % (groups * _GROUP_ROWS) == 0:
            return 4 * groups, 1
    return 4, 1


def _tensor_grids(tile: tuple[int, ...]) -> list[tuple[int, int]]:
    """The warps that may read a tile of tensor memory, best first: two warpgroups share the columns
    where one has no room for what is added to in registers.
    """
    rows, columns = tensor_warps(tile)
    shared = (rows, 2 * columns)
    return [(rows, columns), *([shared] if prod(shared) <= _MOST_WARPS else [])]


def _staged_result_bytes(
    kernel: cute.KernelOp, in_turns: bool = False, is_least: bool = False
) -> int:
    """Shared memory of results that TMA stores: the columns at once, twice where there are more,
    and, of an odd number of steps behind multiplies in a row, two buffers take turns. The least
    that they take is in as few columns at once as ever.
    """
    total = 0
    stores = results_by_tma(kernel)
    is_chained = _is_chained(list(ops_of(kernel, cute.GemmOp)))
    for type_ in stores:
        rows, columns = type_.shape
        divides = is_chained or contiguous_mode(type_) != 1
        chunk = columns_at_once(columns, *bits_of_results(stores, type_.shape), divides=divides)
        while is_least and chunk % 2 == 0 and chunk // 2 * type_.bits >= LEAST_LINE_BITS:
            chunk //= 2
        steps = -(-columns // chunk)
        turns = 2 if steps > 1 and (in_turns or not (is_chained and steps % 2)) else 1
        total += turns * rows * chunk * type_.bits // 8
    return total


def _bytes(type_: Attribute, element: Attribute | None = None) -> int:
    """Bytes of a tile in memory, as it is or of another element type; 0 for one in registers."""
    if not isinstance(type_, cute.MemRefType):
        return 0
    bits = type_.bits if element is None else cute.element_bits(element)
    return prod(type_.shape) * (bits // 8)


def _stage_bytes(
    gemms: list[cute.GemmOp], once: bool = False, prepared: bool | None = None, halved: bool = False
) -> int:
    """Bytes of all operands in one stage as they are multiplied; an operand that multiplies share
    is there once. With `once`, of the operands that stay while a loop runs. Where warpgroups
    multiply, of those as they are loaded, or of the second copies of those that are `prepared`. Of
    a B that is `halved`, each CTA of a pair has half.
    """
    operands = {tile: gemm for gemm in gemms for tile in (gemm.a, gemm.b)}
    return sum(
        (
            _bytes(tile.type, None if prepared is False else multiplied_element(gemm, tile))
            + (_bytes_around(tile) if prepared is False and needs_shifting(gemm, tile) else 0)
        )
        // (2 if halved and tile is gemm.b else 1)
        for tile, gemm in operands.items()
        if _is_outside(tile, gemm) == once and (is_prepared(gemm, tile) or not prepared)
    )


def _bytes_around(tile: SSAValue) -> int:
    """Bytes that a tile takes more with the aligned words around its rows."""
    type_ = cute.memref_of(tile)
    return (around_layout(type_).cosize() - prod(type_.shape)) * type_.bits // 8


def _computed_bytes(gemms: list[cute.GemmOp]) -> int:
    """Shared memory of register tiles that one role computes and another one multiplies; those that
    find room in tensor memory, over what they are made of, take none.
    """
    tiles = {
        tile
        for op in gemms
        for tile in (op.a, op.b)
        if isinstance(tile.type, cute.FragmentType)
        and not (tile is op.a and _has_columns(op, gemms))
    }
    return sum(
        _COMPUTED_STAGES * prod(tile.type.shape) * tile.type.bits // 8  # pyright: ignore[reportAttributeAccessIssue]
        for tile in tiles
    )


def _has_columns(op: cute.GemmOp, gemms: list[cute.GemmOp]) -> bool:
    """Whether A of a multiply can lie over an accumulator of the same block, in tensor memory."""
    block, type_ = op.parent, op.a.type
    assert block is not None
    assert isinstance(type_, cute.FragmentType)
    before = [each for each in gemms if each.parent is block and each is not op]
    return type_.bits == _HALF and any(
        block.get_operation_index(each) < block.get_operation_index(op)
        and cute.shape_of(each.acc.type)[0] == type_.shape[0]
        and 2 * cute.shape_of(each.acc.type)[1] >= type_.shape[1]  # pyright: ignore[reportOperatorIssue]
        for each in before
    )


def _is_outside(tile: SSAValue, gemm: cute.GemmOp) -> bool:
    """Whether an operand is made outside of the block of its multiply."""
    block = tile.owner if isinstance(tile.owner, Block) else tile.owner.parent
    return block is not gemm.parent


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
            return all(MmaChoice(op, arch, given.atom, False).bind(grid) for op in gemms)
        except ValueError:
            return False

    fewer = [(max(1, warps[0] >> halves), warps[1]) for halves in range(warps[0].bit_length())]
    return next(filter(divides, (*fewer, *_PLAIN_GRIDS)), warps)


def _copied_values(gemms: list[cute.GemmOp], arch: str) -> int:
    """Elements of one stage that pass through registers."""
    types = [tile.type for tile in {tile for op in gemms for tile in (op.a, op.b)}]
    tiles = [type_ for type_ in types if isinstance(type_, cute.MemRefType)]
    return sum(prod(type_.shape) for type_ in tiles if not takes_async_copy(type_, arch))


def _thread_warps(tile: tuple[int, ...], tiles: int, copied: int) -> tuple[int, int]:
    """`gemm_warps`, with more rows of warps where a thread would hold too much of its tiles."""
    rows, columns = gemm_warps(tile)
    while (
        max(tiles * tile[0] * tile[1] / _MOST_VALUES, copied / _MOST_COPIED) > 32 * rows * columns
        and tile[0] % (2 * rows * 16) == 0
        and 2 * rows * columns <= _MOST_WARPS
    ):
        rows *= 2
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
