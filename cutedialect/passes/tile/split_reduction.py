"""Tiles whose reduction several CTAs share (split-K, stream-K).

A loop that only adds to its accumulators can be cut anywhere: every CTA runs its part of the loop
from zero and keeps its sums in a workspace; the last one that is done adds them up, always in the
order of the parts, and goes on with what follows the loop. No CTA waits for another.

    acc = 0; for k in 0..n { acc += f(k) }; use acc
    =>
    acc = 0; for k in 0..count { acc += f(first + k) }; partials[slot(part)] = acc
    if last arrival { acc = 0; for j in 0..parts { acc += partials[slot(j)] }; use acc }

With the reduction `atomic` the parts are added in memory as they come, and the last CTA takes the
sum from there and leaves zeros. With `cluster` the CTAs that share a tile are a cluster, and send
each other their sums through shared memory: each goes on with its part of the columns of the sum,
or the first with all of it (`cute.cluster_sum`), where what follows takes whole tiles.

    y = map acc                                  part = cluster_scatter acc of 4
    d = local_tile(D, [64, 64], (m, n))    =>    y = map part
    copy y, d                                    d = local_tile(D, [64, 16], (m, 4 n + rank))
                                                 copy y, d

Columns are parted where each element of the product goes its own way: through maps, from and to
tiles of tensors that have the columns too, or one that all columns have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import UniversalCopyType
from cutedialect.dialects.effects import written_by
from cutedialect.dialects.walks import holds, walk
from cutedialect.layout import Dyn, Layout
from cutedialect.passes.analysis.memory_views import constant_of, is_zero
from cutedialect.passes.launch_arguments import add_argument
from cutedialect.passes.rewriting import ScalarBuilder, block_of, cloned, insert_before
from cutedialect.passes.tile.resized_tiles import (
    View,
    combined,
    fragment_shape,
    kept_modes,
    neutral,
    resize_tiles,
    resize_view,
)
from cutedialect.passes.tile.shared_effects import WHOLE_REDUCTION, check_shared_effects
from cutedialect.schedule import Schedule

_ALIGNMENT = 16
# Elements that a thread has next to each other where sums are kept.
_NEIGHBORS = 4
# Bits of the elements that CTAs of a cluster add up.
_SUMMED_BITS = 32
# A thread has two neighboring columns of eight in the layouts of MMA atoms.
_COLUMNS = 8
_COUNTERS = cute.MemRefType.get(i32, "gmem", _ALIGNMENT, Layout((Dyn(),), (1,)))

HostScalar = Callable[[ScalarBuilder, cute.LaunchOp], SSAValue]
"""A number that host code in front of a launch computes."""


@dataclass(frozen=True)
class Share:
    """A CTA's share of a tile: of `parts` it is number `part`.

    counter: the number of the tile's counter. slot: where the sums of a part are kept. trips: the
    first trip and the number of trips of this part, for the number of all. counters: how many of
    them a launch has; slots: how many there are for each of them. always: whether `parts` is never
    1.
    """

    part: SSAValue
    parts: SSAValue
    counter: SSAValue
    slot: Callable[[ScalarBuilder, SSAValue], SSAValue]
    trips: Callable[[ScalarBuilder, SSAValue], tuple[SSAValue, SSAValue]]
    counters: HostScalar
    slots: int
    always: bool


@dataclass(frozen=True)
class Reduction:
    """The loop of a kernel's matrix multiplies, the fragments that it adds to, and copies to those
    that it loads a trip ahead, which bring what the first trip takes.
    """

    loop: scf.ForOp
    accumulators: tuple[SSAValue, ...]
    ahead: tuple[cute.CopyOp, ...] = ()


def reduction_of(kernel: cute.KernelOp) -> Reduction:
    """The reduction that CTAs can share; PassFailedException where there is none."""
    fors = [op for op in kernel.body.block.ops if isinstance(op, scf.ForOp)]
    loops = [op for op in fors if holds(op, cute.GemmOp)]
    if len(loops) != 1:
        raise PassFailedException(
            loops[1] if loops else kernel,
            f"expected one loop of matrix multiplies whose reduction is split, got {len(loops)}; "
            f"{WHOLE_REDUCTION}",
        )
    loop = loops[0]
    if constant_of(loop.step) != 1:
        raise PassFailedException(
            loop, f"expected a loop of step 1 whose reduction is split; {WHOLE_REDUCTION}"
        )
    found: list[SSAValue] = []
    ahead = tuple(_loads_of_first_trip(loop))
    loaded = {copy.destination for copy in ahead}
    for op in walk(loop):
        value = None
        if isinstance(op, cute.GemmOp):
            value = op.acc
        elif isinstance(op, cute.CopyOp | cute.FillOp):
            value = op.destination if isinstance(op, cute.CopyOp) else op.fragment
        if value is None or not isinstance(value.type, cute.FragmentType):
            continue
        if value in found or value in loaded:
            continue
        if isinstance(value.owner, Operation) and not loop.is_ancestor(value.owner):
            _check_sum(value, loop)
            found.append(value)
    check_shared_effects(kernel, loop)
    return Reduction(loop, tuple(found), ahead)


def _loads_of_first_trip(loop: scf.ForOp) -> Iterator[cute.CopyOp]:
    """Copies in front of a loop of tiles that are loaded at its lower bound, to fragments to which
    its trips do nothing but copy what they load.
    """
    block = block_of(loop)
    for copy in [op for op in block.ops if isinstance(op, cute.CopyOp)]:
        tile, target = _loaded_tile(copy), copy.destination
        if tile is None or loop.lb not in tile.coords or not copy.is_before_in_block(loop):
            continue
        writes = [use.operation for use in target.uses if target in written_by(use.operation)]
        if all(
            _loaded_tile(op) is not None
            if loop.is_ancestor(op)
            else op is copy or (isinstance(op, cute.FillOp) and op.is_before_in_block(copy))
            for op in writes
        ):
            yield copy


def _loaded_tile(op: Operation) -> cute.LocalTileOp | None:
    """The tile of a tensor that a copy to a fragment has loaded."""
    load = op.source.owner if isinstance(op, cute.CopyOp) else None
    tile = load.source.owner if isinstance(load, cute.LoadOp) else None
    return tile if isinstance(tile, cute.LocalTileOp) else None


def _check_sum(accumulator: SSAValue, loop: scf.ForOp) -> None:
    """Refuse a fragment that does not start from zero, or that the loop does more with than add."""
    block = block_of(loop)

    def is_of_sum(op: Operation) -> bool:
        if loop.is_ancestor(op):
            match op:
                case cute.GemmOp():
                    return op.acc is accumulator
                case cute.MapOp():
                    return _is_added(op, accumulator)
                case cute.CopyOp() if op.destination is accumulator:
                    # The accumulator plus something else.
                    source = op.source.owner
                    return isinstance(source, cute.MapOp) and _is_added(source, accumulator)
                case _:
                    return False
        if isinstance(op, cute.FillOp) and op.parent is block and op.is_before_in_block(loop):
            return is_zero(op.value)
        place = block.find_ancestor_op_in_block(op)
        return place is not None and loop.is_before_in_block(place)

    wrong = [use.operation for use in accumulator.uses if not is_of_sum(use.operation)]
    if wrong:
        raise PassFailedException(
            wrong[0],
            "expected accumulators that start from zero and are only added to in a loop whose "
            f"reduction is split; {WHOLE_REDUCTION}",
        )


def _is_added(op: cute.MapOp, accumulator: SSAValue) -> bool:
    """Whether a map gives `accumulator` plus what does not depend on it, just to write it back."""
    inputs = zip(op.body.block.args, op.inputs, strict=True)
    arguments = [argument for argument, value in inputs if value is accumulator]
    last = op.body.block.last_op
    if len(arguments) != 1 or not isinstance(last, cute.YieldOp):
        return False
    total = last.value.owner
    is_sum = isinstance(total, arith.AddfOp | arith.AddiOp) or (
        isinstance(total, math.FmaOp) and total.c is arguments[0]
    )
    return (
        is_sum
        and [use.operation for use in arguments[0].uses] == [total]
        and all(
            isinstance(use.operation, cute.CopyOp) and use.operation.destination is accumulator
            for use in op.result.uses
        )
    )


def hoisted(build: ScalarBuilder, value: SSAValue, before: Operation) -> SSAValue:
    """`value` computed at the builder's place, in front of `before`."""
    op = value.owner
    block = block_of(before)
    if not isinstance(op, Operation) or (op.parent is block and op.is_before_in_block(before)):
        return value
    if op is before or op.regions or op.parent is not block:
        raise PassFailedException(
            op if isinstance(op, Operation) else before,
            "expected a reduction that is equally long for all tiles with the scheduler stream; "
            "take scheduler = persistent",
        )
    operands = [hoisted(build, operand, before) for operand in op.operands]
    clone = cloned(op, dict(zip(op.operands, operands, strict=True)))
    return build.value(clone)


def is_scattered(reduction: Reduction, schedule: Schedule) -> bool:
    """Whether each CTA of a cluster that shares tiles goes on with a part of their columns."""
    warps = schedule.warps
    # Warps side by side have columns of their own.
    return (
        warps is not None
        and warps[1] == 1
        and len(reduction.accumulators) == 1
        and _is_cut(_following(reduction.loop), reduction.accumulators[0], schedule.split_k or 1)
    )


def share_reduction(
    kernel: cute.KernelOp, reduction: Reduction, share: Share, schedule: Schedule
) -> None:
    """Cut the loop to the CTA's part, and leave what follows it to the last CTA of the tile."""
    atomic = schedule.reduction == "atomic"
    loop = reduction.loop
    _cut(loop, share, reduction.ahead)
    following = _following(loop)
    if schedule.shares_in_cluster:
        if [cute.fragment_of(each).bits for each in reduction.accumulators] != [_SUMMED_BITS]:
            raise PassFailedException(
                loop,
                f"expected one accumulator with elements of {_SUMMED_BITS} bits with reduction = "
                "cluster, got others; take reduction = ordered",
            )
        acc, parts = reduction.accumulators[0], schedule.split_k or 1
        build = ScalarBuilder(InsertPoint.after(loop), loop)
        if is_scattered(reduction, schedule):
            _cut_columns(build, following, acc, parts, share.part)
            return
        first = build.value(cute.ClusterSumOp(acc, parts))
        _move(following, _when(build, first))
        return
    sums = 1 if atomic else share.slots

    def workspace(name: str, type_: cute.MemRefType, slots: int, zeroed: bool) -> SSAValue:
        """An argument of so many tiles or counters of a tensor's type for each counter."""

        def make(launch: cute.LaunchOp) -> cute.WorkspaceOp:
            build = ScalarBuilder(InsertPoint.before(launch), launch)
            count = share.counters(build, launch)
            count = build.mul(count, slots) if slots > 1 else count
            return cute.WorkspaceOp([count], type_, zeroed)

        return add_argument(kernel, type_, name, make)

    counters = workspace("arrivals", _COUNTERS, 1, True)
    pairs = [
        (value, workspace("partials", _partials_type(value), sums, atomic))
        for value in reduction.accumulators
    ]

    def if_shared(build: ScalarBuilder, write: Callable[..., None]) -> None:
        """Code for tiles of several parts, in a branch if there may be others."""
        if not share.always:
            ending = _when(build, build.compare("sgt", share.parts, 1))
            build = build.at(InsertPoint.before(ending))
        write(build, pairs, share, atomic)

    build = ScalarBuilder(InsertPoint.after(loop), loop)
    if_shared(build, _keep)
    last = build.value(cute.LastArrivalOp(counters, share.counter, share.parts))
    ending = _when(build, last)
    if_shared(build.at(InsertPoint.before(ending)), _total)
    _move(following, ending)


def _following(loop: scf.ForOp) -> list[Operation]:
    """The ops behind a loop, up to the end of its block."""
    found: list[Operation] = []
    op = loop.next_op
    while op is not None and not isinstance(op, scf.YieldOp):
        found.append(op)
        op = op.next_op
    return found


def _move(ops: Sequence[Operation], before: Operation) -> None:
    for op in ops:
        op.detach()
    insert_before(before, *ops)


def _cut(loop: scf.ForOp, share: Share, ahead: Iterable[cute.CopyOp]) -> None:
    """Let the loop run from 0 over the trips of this part, behind loads of what its first one
    takes.
    """
    build = ScalarBuilder(InsertPoint.before(loop), loop)
    from_zero = is_zero(loop.lb)
    total = loop.ub if from_zero else build.sub(loop.ub, loop.lb)
    first, count = share.trips(build, total)
    if not from_zero:
        first = build.add(first, loop.lb)
    for copy in ahead:
        tile = _loaded_tile(copy)
        assert tile is not None
        for place, operand in enumerate(tile.operands):
            if operand is loop.lb:
                tile.operands[place] = first
        _move([tile, *(use.operation for use in tile.result.uses), copy], loop)
    loop.operands[0], loop.operands[1] = build.constant(0), count
    trip, inside = loop.body.block.args[0], loop.body.block.first_op
    assert inside is not None
    moved = ScalarBuilder(InsertPoint.before(inside), loop).add(trip, first)
    trip.replace_uses_with_if(moved, lambda use: use.operation is not moved.owner)


def _when(build: ScalarBuilder, condition: SSAValue) -> Operation:
    """A branch without another side; returns the end of its block."""
    then, other = Block(), Block()
    build.insert(scf.IfOp(condition, [], Region(then), Region(other)))
    build.at(InsertPoint.at_end(other)).insert(scf.YieldOp())
    return build.at(InsertPoint.at_end(then)).insert(scf.YieldOp())


def _keep(
    build: ScalarBuilder, pairs: Sequence[tuple[SSAValue, SSAValue]], share: Share, atomic: bool
) -> None:
    """Put the part's sums into the workspace."""
    slot = share.counter if atomic else share.slot(build, share.part)
    for accumulator, partials in pairs:
        view = _slot(build, partials, slot)
        if atomic:
            build.insert(cute.CombineOp("add", accumulator, view))
        else:
            build.insert(cute.CopyOp(accumulator, view, atom=_direct(accumulator)))


def _total(
    build: ScalarBuilder, pairs: Sequence[tuple[SSAValue, SSAValue]], share: Share, atomic: bool
) -> None:
    """Bring the sum of all parts back to the accumulators."""
    if atomic:
        for accumulator, partials in pairs:
            view = _slot(build, partials, share.counter)
            loaded = build.value(cute.LoadOp(view))
            build.insert(cute.CopyOp(loaded, accumulator))
            # Made of what was loaded, zeros are stored by the threads that loaded.
            type_ = cute.fragment_of(accumulator)
            zeros = build.value(cute.MapOp.of(lambda each: _zero(each.type), [loaded], type_))
            build.insert(cute.CopyOp(zeros, view, atom=_direct(accumulator)))
        return
    for accumulator, _ in pairs:
        zero = build.value(_zero(cute.fragment_of(accumulator).element))
        build.insert(cute.FillOp(accumulator, zero))
    body = Block(arg_types=[i32])
    build.insert(scf.ForOp(build.constant(0), share.parts, build.constant(1), [], body))
    build = build.at(InsertPoint.at_end(body))
    slot = share.slot(build, body.args[0])
    for accumulator, partials in pairs:
        loaded = build.value(cute.LoadOp(_slot(build, partials, slot)))
        total = build.value(combined("add", accumulator, loaded))
        build.insert(cute.CopyOp(total, accumulator))
    build.insert(scf.YieldOp())


def _zero(element: Attribute) -> arith.ConstantOp:
    return arith.ConstantOp(neutral("add", element))  # pyright: ignore[reportArgumentType]


def _slot(build: ScalarBuilder, partials: SSAValue, slot: SSAValue) -> SSAValue:
    """The tile of the workspace with this number."""
    zero = build.constant(0)
    return build.value(cute.LocalTileOp(partials, [0, -1, -1], [slot, zero, zero]))


def _direct(accumulator: SSAValue) -> UniversalCopyType:
    """Stores from the registers as they are: nobody but these threads' likes reads them."""
    type_ = cute.fragment_of(accumulator)
    return UniversalCopyType.get(type_.element, min(128, type_.bits * _NEIGHBORS))


def _partials_type(accumulator: SSAValue) -> cute.MemRefType:
    rows, columns = cute.fragment_of(accumulator).shape
    down, along = _in_vectors(rows, columns)
    layout = Layout((Dyn(), down.shape, along.shape), (rows * columns, down.stride, along.stride))
    return cute.MemRefType.get(cute.fragment_of(accumulator).element, "gmem", _ALIGNMENT, layout)


def _in_vectors(rows: int, columns: int) -> tuple[Layout, Layout]:
    """Rows and columns of a tile that lies as threads hold it: in the layouts of MMA atoms a thread
    has two neighboring columns of a row and of the eighth one below, which are 16 bytes here, and
    those of a warp follow each other.
    """
    if rows % 16 or columns % 8:
        return Layout(rows, columns), Layout(columns, 1)
    return (
        Layout((8, 2, rows // 16), (16, 2, 16 * columns)),
        Layout((2, 4, columns // 8), (1, 4, 128)),
    )


def _is_cut(following: Sequence[Operation], acc: SSAValue, parts: int) -> bool:
    """Whether ops that follow the sum of a register tile can have a part of its columns each."""
    columns = cute.shape_of(acc.type)[1]
    inside = set(_all(following))
    return columns % (_COLUMNS * parts) == 0 and all(
        _takes_part(op, columns, inside) for op in inside
    )


def _cut_columns(
    build: ScalarBuilder, following: Sequence[Operation], acc: SSAValue, parts: int, rank: SSAValue
) -> None:
    """Add up a register tile over the cluster, and leave the ops that follow the part of `rank`."""
    columns = cute.shape_of(acc.type)[1]
    width = columns // parts
    ops = list(_all(following))
    inside = set(ops)
    count = build.constant(parts)
    start = build.mul(rank, width)
    part = build.value(cute.ClusterScatterOp(acc, parts))
    acc.replace_uses_with_if(part, lambda use: use.operation in inside)

    def extents(value: SSAValue) -> dict[int, int]:
        return {1: width} if fragment_shape(value)[1:] == (columns,) else {}

    def resize(op: View) -> None:
        mode = _column_mode(op, columns)
        if mode is not None:
            place = ScalarBuilder(InsertPoint.before(op), op)
            tile, coords = list(op.tile.get_values()), list(op.coords)
            tile[mode] = width
            coords[mode] = place.add(place.mul(coords[mode], count), rank)
            resize_view(op, tile, coords)

    resize_tiles(ops, extents, resize, start)


def _all(following: Iterable[Operation]) -> Iterator[Operation]:
    for each in following:
        yield from walk(each)


def _takes_part(op: Operation, columns: int, inside: set[Operation]) -> bool:
    """Whether an op does the same with a part of the columns as with all."""
    tiles = [each for each in (*op.operands, *op.results) if fragment_shape(each)]
    match op:
        case cute.LocalTileOp() | cute.TransposeOp():
            is_counted = isinstance(op, cute.TransposeOp) or op.of is None
            return is_counted and not tiles and op.result.has_one_use()
        case cute.LoadOp():
            return _is_whole(op.result, columns) and _is_tiled(op.source, inside)
        case cute.CopyOp():
            return (
                isinstance(op.destination.type, cute.MemRefType)
                and op.mask is None
                and cute.shape_of(op.source.type)[1:] == (columns,)
                and _is_tiled(op.destination, inside)
            )
        case cute.MapOp():
            return all(_is_whole(tile, columns) for tile in tiles)
        case _:
            return not tiles or isinstance(op, cute.YieldOp)


def _is_whole(tile: SSAValue, columns: int) -> bool:
    """Whether a register tile has all columns, or one that all have in common."""
    shape = cute.shape_of(tile.type)
    return len(shape) == 2 and shape[1] in (columns, 1)


def _is_tiled(view: SSAValue, inside: set[Operation]) -> bool:
    """Whether a view of memory is a tile of a tensor, maybe transposed, that is made inside."""
    while isinstance(view.owner, cute.TransposeOp) and view.owner in inside:
        view = view.owner.source
    return isinstance(view.owner, cute.LocalTileOp) and view.owner in inside


def _column_mode(op: View, columns: int) -> int | None:
    """The mode of a tensor along which its tile has the columns; None where it has none."""
    # A tile of one mode is a column.
    modes: list[int | None] = [*kept_modes(op), None][:2]
    view: SSAValue = op.result
    while isinstance(user := next(iter(view.uses)).operation, cute.TransposeOp):
        modes.reverse()
        view = user.result
    return modes[1] if cute.shape_of(view.type)[1:] == (columns,) else None
