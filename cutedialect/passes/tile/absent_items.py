"""Work items that a cluster has beyond the last tile: a cluster has as many CTAs whatever the tiles
of the tensor are. Such a CTA takes part in what its cluster does together, and has no effect.

What it stores to a tile at its own coordinates lies outside of the tensor, and is not stored. Other
effects get a condition:

    cute.atomic "add", %x, %v            scf.if %exists { cute.atomic "add", %x, %v }
    %n = cute.read %lengths[%i]          %n = cute.read %lengths[%i] if %exists

Tiled modes are masked wherever a tile is copied. Of a mode that is dropped the coordinate is looked
at where it depends on the CTA's place in its cluster, whatever is promised of tiles that exist.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects import cute
from cutedialect.dialects.cute.views import GUARD
from cutedialect.dialects.effects import is_pure, space_of, written_by
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.analysis.memory_views import constant_of
from cutedialect.passes.analysis.tensor_maps import cluster_modes, deciding
from cutedialect.passes.rewriting import ScalarBuilder, erase
from cutedialect.passes.tile.coordinate_bounds import IN_BOUNDS

# The modes of a work item's tile along which a cluster lies.
_MODES = (-2, -1)


def effects_of_items(index: cute.TileIndexOp, cluster: tuple[int, int]) -> list[Operation]:
    """The ops behind a `cute.tile_index` that a work item beyond the last tile must not run, where
    work items go to clusters.
    """
    tile = index.tile.get_values()
    if len(tile) < len(cluster):
        raise PassFailedException(
            index,
            f"expected work items of {len(cluster)} coordinates with cluster = {cluster}, got "
            f"{len(tile)}; take cluster = (1,1)",
        )
    for mode, ctas in zip(_MODES, cluster, strict=True):
        if ctas > 1 and tile[mode] < 0:
            raise PassFailedException(
                index,
                f"expected tiles of mode {len(tile) + mode} with cluster = {cluster}, got the "
                "whole mode in one; take 1 along it",
            )
    own = [
        (index.results[mode], tile[mode])
        for mode, ctas in zip(_MODES, cluster, strict=True)
        if ctas > 1
    ]
    kernel = index.parent_op()
    assert isinstance(kernel, cute.KernelOp)
    # Other tensors may go on where the counted one ends, unless the kernel promises otherwise.
    counted = None if IN_BOUNDS in kernel.attributes else _group_of(index.memref)
    found: list[Operation] = []
    op = index.next_op
    while op is not None:
        for each in [op, *(inner for region in op.regions for inner in walk(region))]:
            if _has_effect(each) and not (_is_outside(each, own, counted) or _is_alike(each)):
                found.append(each)
        op = op.next_op
    return found


def guard_loads(index: cute.TileIndexOp, cluster: tuple[int, int]) -> None:
    """Let the tiles of a work item beyond the last one be read as 0 along modes that are dropped:
    put `guard` on the views whose coordinates may lie beyond these.
    """
    beyond = {mode for mode, ctas in enumerate(cluster) if ctas > 1}
    kernel = index.parent_op()
    assert isinstance(kernel, cute.KernelOp)
    for op in ops_of(kernel, cute.LocalTileOp, cute.IndexedTileOp):
        given = op.attributes.get(GUARD)
        guarded = set(given.get_values() if isinstance(given, DenseArrayBase) else ())
        for mode, coord in enumerate(op.coords):
            reached = cluster_modes(coord) if op.tile.get_values()[mode] == 0 else set()
            if reached is None or reached & beyond:
                guarded.add(mode)
        if guarded:
            op.attributes[GUARD] = DenseArrayBase.from_list(i64, sorted(guarded))


def guard_effects(
    effects: Sequence[Operation],
    build: ScalarBuilder,
    tensor: SSAValue,
    tile: Sequence[int],
    coords: Sequence[SSAValue],
    cluster: tuple[int, int],
) -> None:
    """Let effects be only where the work item at `coords` has a tile of the tensor."""
    exists: SSAValue | None = None
    for mode, ctas in zip(_MODES, cluster, strict=True):
        if ctas > 1:
            tiles = build.tiles(tensor, len(tile) + mode, tile[mode])
            is_tile = build.compare("slt", coords[mode], tiles)
            exists = is_tile if exists is None else build.binary(arith.AndIOp, exists, is_tile)
    assert exists is not None
    for op in effects:
        if isinstance(op, cute.ReadOp):
            _read_if(op, exists)
        else:
            _run_if(op, exists)


def _has_effect(op: Operation) -> bool:
    match op:
        case cute.AtomicOp() | cute.PrintfOp() | cute.AssertOp() | cute.ReadOp():
            return True
        case cute.CopyOp():
            return space_of(op.destination) == "gmem"
        case _:
            return False


def _is_outside(
    op: Operation, own: Sequence[tuple[SSAValue, int]], counted: SSAValue | None
) -> bool:
    """Whether an op writes to a tile at the work item's own coordinates alone, of the tensor (or
    group) whose tiles are `counted`, or of any where that is None.
    """
    if not isinstance(op, cute.CopyOp | cute.AtomicOp):
        return False
    view = cute.tile_behind(op.destination)
    if view is None or counted not in (None, _group_of(view.memref)):
        return False
    extents = [extent for extent in view.tile.get_values() if extent >= 0]
    at = list(zip(view.coords, extents[-len(view.coords) :], strict=False))
    return all(any(pair == each or _is_part(*each, *pair) for each in at) for pair in own)


def _is_part(coord: SSAValue, extent: int, whole: SSAValue, of: int) -> bool:
    """Whether a tile at a coordinate is one of the equal parts of the tile of a larger extent at
    `whole`: number c of n, at n whole + c.
    """
    count, number, product = of // max(extent, 1), 0, coord
    if isinstance(coord.owner, arith.AddiOp):
        product, number = coord.owner.lhs, constant_of(coord.owner.rhs)
    if number is None or not isinstance(product.owner, arith.MuliOp) or count * extent != of:
        return False
    is_whole = product.owner.lhs is whole and constant_of(product.owner.rhs) == count
    return is_whole and 0 <= number < count


def _group_of(tensor: SSAValue) -> SSAValue:
    """The group of which a tensor is one, or the tensor itself."""
    owner = tensor.owner
    return owner.group if isinstance(owner, cute.MemberOp) else tensor


def _is_alike(op: Operation) -> bool:
    """Whether an op reads what every CTA of the cluster reads: what decides how often a load runs
    stays the same for all of them, so that they may share it.
    """
    values = [*op.operands, *deciding(op)]
    return isinstance(op, cute.ReadOp) and all(cluster_modes(value) == set() for value in values)


def _read_if(op: cute.ReadOp, condition: SSAValue) -> None:
    build = ScalarBuilder(InsertPoint.before(op), op)
    if op.pred is not None:
        condition = build.binary(arith.AndIOp, op.pred, condition)
    op.result.replace_all_uses_with(build.value(cute.ReadOp(op.source, list(op.coords), condition)))
    erase(op)


def _made_for(op: Operation) -> list[Operation]:
    """What stands in front of an op and nothing but that uses, the last first: with it a result is
    stored some columns at a time, while the next ones are computed.
    """
    taken: list[Operation] = [op]
    before = op.prev_op
    # Nothing that is passed here writes to what maps read.
    while before is not None and (is_pure(before) or _only_reads(before)):
        users = {use.operation for result in before.results for use in result.uses}
        if users and all(any(each.is_ancestor(user) for each in taken) for user in users):
            taken.append(before)
        before = before.prev_op
    return taken[1:]


def _only_reads(op: Operation) -> bool:
    return isinstance(op, cute.MapOp) and not written_by(op)


def _run_if(op: Operation, condition: SSAValue) -> None:
    then = Block()
    build = ScalarBuilder(InsertPoint.before(op), op)
    build.insert(scf.IfOp(condition, [], Region(then)))
    made = _made_for(op)
    for each in [*reversed(made), op]:
        each.detach()
        then.add_op(each)
    build.at(InsertPoint.at_end(then)).insert(scf.YieldOp())
