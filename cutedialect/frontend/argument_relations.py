"""What the arguments of a program have to be to each other, from its trace: which modes are equally
long, and which tensors share no memory.

Where both operands of a multiply are tiles of arguments, at one place along the mode that is summed
over, beyond the shorter of these modes tiles read 0, so that a wrong argument would give a wrong
product silently. Passes take arguments for tensors apart: where one is read and another one written
that is the same array, the call is right if no tile is read that another work item, or an earlier
op of the same one, may have written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import DenseArrayBase, FileLineColLoc, IntegerAttr, ModuleOp, i64
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.traits import Pure

from cutedialect.backend.runtime.signature import EqualExtents, SharedMemory
from cutedialect.dialects.cute import (
    AllocFragmentOp,
    ConcatOp,
    GemmOp,
    IndexedTileOp,
    KernelOp,
    LaunchOp,
    LoadOp,
    LocalTileOp,
    MapOp,
    MemberOp,
    ReadOp,
    SliceOp,
    TileIndexOp,
    TransposeOp,
    shape_of,
)
from cutedialect.dialects.effects import effects_of, space_of
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.analysis.memory_views import (
    IN_PLACE,
    Access,
    Expression,
    constant_of,
    depends_on,
    expression_of,
    may_see,
    root_of,
)

from .trace import is_of_library


def contracted_extents(module: ModuleOp) -> tuple[EqualExtents, ...]:
    """The modes of the program's arguments that are multiplied with each other, from a module as it
    is traced: one kernel, or kernels with a host part that launches them.
    """
    found: dict[EqualExtents, None] = {}
    for kernel, places in _launched(module):
        for one, mode, other, its_mode, limit, line in _multiplied(kernel):
            first, second = places(one), places(other)
            if first is not None and second is not None:
                found[first, mode, second, its_mode, limit, line] = None
    return tuple(found)


def shared_memory(module: ModuleOp) -> tuple[SharedMemory, ...]:
    """The arguments of which a kernel reads one and writes the other, and where both may be the
    same array as it is; no other memory may be shared. Kernels are marked with the latter.
    """
    found: dict[tuple[int, int], _Needs] = {}
    lines: dict[tuple[int, int], str | None] = {}
    for kernel, places in _launched(module):
        pairs = _read_and_written(kernel)
        _mark_in_place(kernel, pairs)
        for (one, other), pair in pairs.items():
            needs, line = pair.needs, pair.line
            read, written = places(one), places(other)
            if read is None or written is None or read == written:
                continue
            if needs is None or (read, written) not in lines:
                lines[read, written] = line
            before = found.get((read, written), frozenset[tuple[int, int, int]]())
            asked = [(places(place), mode, extent) for place, mode, extent in needs or ()]
            known = [(place, mode, extent) for place, mode, extent in asked if place is not None]
            if needs is None or before is None or len(known) < len(asked):
                found[read, written] = None
            else:
                found[read, written] = before.union(known)
    return tuple(
        (*pair, None if needs is None else tuple(sorted(needs)), lines[pair])
        for pair, needs in found.items()
    )


def _mark_in_place(kernel: KernelOp, pairs: Mapping[tuple[int, int], _Pair]) -> None:
    """Tell the passes of arguments that may be one array: the kernel reads one and writes the same
    tiles of the other, so that its threads meet between where several hold an element.
    """
    places = [place for both, pair in pairs.items() if pair.in_place for place in both]
    if places:
        kernel.attributes[IN_PLACE] = DenseArrayBase.from_list(i64, places)


def _element(kernel: KernelOp, place: int) -> object:
    return getattr(kernel.body.block.args[place].type, "element", None)


def _launched(module: ModuleOp) -> list[tuple[KernelOp, Callable[[int], int | None]]]:
    """The kernels of a program, each with what tells the program's argument of one of its own."""
    kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
    hosts = [op for op in module.ops if isinstance(op, func.FuncOp)]
    if not hosts:
        return [(kernel, lambda place: place) for kernel in kernels.values()]
    found: list[tuple[KernelOp, Callable[[int], int | None]]] = []
    for host in hosts:
        places: dict[SSAValue, int] = {a: n for n, a in enumerate(host.body.block.args)}
        for launch in ops_of(host, LaunchOp):
            given = [places.get(arg) for arg in launch.args]
            found.append((kernels[launch.kernel.string_value()], given.__getitem__))
    return found


def _multiplied(kernel: KernelOp) -> list[EqualExtents]:
    block = kernel.body.block
    pairs: list[EqualExtents] = []
    for op in ops_of(kernel, GemmOp):
        a, b = _place(op.a, 1, block), _place(op.b, 1, block)
        if a is None or b is None or (a.argument, a.mode) == (b.argument, b.mode):
            continue
        if a.extent == b.extent and _is_same(a.coord, b.coord):
            # Of a tile at a fixed place it does not matter what lies behind it.
            made = a.coord.owner
            at = made.value if isinstance(made, arith.ConstantOp) else None
            limit = (at.value.data + 1) * a.extent if isinstance(at, IntegerAttr) else None
            pairs.append((a.argument, a.mode, b.argument, b.mode, limit, _line(op)))
    return pairs


def _line(op: Operation) -> str | None:
    """The user's line of an op, as remarks name it; None for one of the library's programs."""
    at = op.location
    if not isinstance(at, FileLineColLoc) or is_of_library(at.filename.data):
        return None
    return f"{at.filename.data}:{at.line.data}:{at.column.data}"


@dataclass(frozen=True)
class _Place:
    """Where a mode of a tile lies: an argument's mode, and the coordinate in tiles of an extent."""

    argument: int
    mode: int
    coord: SSAValue
    extent: int


def _place(value: SSAValue, mode: int, block: Block) -> _Place | None:
    """Where a mode of a tile lies; None where it is not just a tile of an argument."""
    while isinstance(op := value.owner, Operation):
        match op:
            case TransposeOp():
                value = op.operands[0]
                rank = len(shape_of(value.type))
                if rank == 1 and mode == 0:
                    return None
                mode = 0 if rank == 1 else 1 - mode
            case LoadOp():
                value = op.operands[0]
            case MapOp() if len(op.inputs) == 1 and shape_of(op.inputs[0].type) == shape_of(
                op.results[0].type
            ):
                value = op.inputs[0]
            case LocalTileOp():
                tile = op.tile.get_values()
                kept = [each for each, extent in enumerate(tile) if extent != 0][mode]
                source = op.memref
                if not isinstance(source, BlockArgument) or source.block is not block:
                    return None
                if tile[kept] < 0:
                    return None
                return _Place(source.index, kept, op.coords[kept], tile[kept])
            case _:
                return None
    return None


def _is_same(one: SSAValue, other: SSAValue) -> bool:
    """Whether two values are computed alike."""
    if one is other:
        return True
    mine, theirs = one.owner, other.owner
    return (
        isinstance(mine, Operation)
        and isinstance(theirs, Operation)
        and type(mine) is type(theirs)
        and mine.has_trait(Pure)
        and not mine.regions
        and mine.properties == theirs.properties
        and mine.attributes == theirs.attributes
        and len(mine.results) == 1
        and all(map(_is_same, mine.operands, theirs.operands))
    )


# Modes of arguments that are no longer than a tile; None of what is wrong in any case.
_Needs = frozenset[tuple[int, int, int]] | None


@dataclass(frozen=True)
class _Pair:
    """An argument that is read and one that is written: what has to hold where they are one array,
    the line that reads, and whether both are of one type and may have a tile in common.
    """

    needs: _Needs
    line: str | None
    in_place: bool


@dataclass(frozen=True)
class _Item:
    """A coordinate of a work item, and that of which tiles along which mode of an argument it is
    the number; None where that is no mode of an argument.
    """

    coord: SSAValue
    of: tuple[int, int, int] | None


def _read_and_written(kernel: KernelOp) -> dict[tuple[int, int], _Pair]:
    """The arguments of a kernel that it reads and others that it writes."""
    reads, writes = _accessed(kernel)
    block = kernel.body.block
    items = [item for index in ops_of(kernel, TileIndexOp) for item in _items(index, block)]
    writers = _writers(kernel)
    pairs: dict[tuple[int, int], _Pair] = {}
    for other, mine in writes.items():
        for one, theirs in reads.items():
            if one == other:
                continue
            needs: _Needs = frozenset()
            line = _line(theirs[0].access.op)
            for read, write in product(theirs, mine):
                asked = _needs(read, write, items, writers)
                if asked is None or not asked <= needs:
                    line = _line(read.access.op)
                needs = None if asked is None else needs | asked
                if needs is None:
                    break
            in_place = (
                needs is not None
                and _element(kernel, one) == _element(kernel, other)
                and any(
                    _are_one_tile(*uses) or (needs and _are_as_large(*uses))
                    for uses in product(theirs, mine)
                )
            )
            pairs[one, other] = _Pair(needs, line, in_place)
    return pairs


def _accessed(kernel: KernelOp) -> tuple[dict[int, list[_Use]], dict[int, list[_Use]]]:
    """The views of its arguments that a kernel reads, and those that it writes."""
    reads: dict[int, list[_Use]] = {}
    writes: dict[int, list[_Use]] = {}
    block = kernel.body.block
    for number, op in enumerate(walk(block)):
        effects = effects_of(op)
        # Elements that scalars are read of are declared to stay as they are.
        read = (op.source,) if isinstance(op, ReadOp) else effects.reads
        for found, tiles in ((reads, read), (writes, effects.writes)):
            for tile in tiles:
                root = root_of(tile) if space_of(tile) == "gmem" else None
                if isinstance(root, BlockArgument) and root.block is block:
                    use = _Use(Access(op, tile, number), _modes(tile))
                    found.setdefault(root.index, []).append(use)
    return reads, writes


def _items(index: TileIndexOp, block: Block) -> list[_Item]:
    """The coordinates of a work item that differ between some of them."""
    extents, tensor = index.tile.get_values(), index.memref
    first = len(index.coords) - len(extents)  # the number of a tensor in a group
    is_argument = not first and isinstance(tensor, BlockArgument) and tensor.block is block
    found = [_Item(index.coords[0], None)] if first else []
    for mode, extent in enumerate(extents):
        if extent >= 0:
            of = (tensor.index, mode, max(1, extent)) if is_argument else None
            found.append(_Item(index.coords[first + mode], of))
    return found


# Where a view lies along a mode of its tensor: slices, and the coordinate in tiles of an extent.
_Along = tuple[Expression, SSAValue, int]


@dataclass(frozen=True)
class _Use:
    """A view that a kernel reads or writes; `modes` has what is known of it along the modes of the
    tensor, -1 being the number of a tensor in a group. None where rows are looked up.
    """

    access: Access
    modes: dict[int, _Along] | None


def _modes(tile: SSAValue) -> dict[int, _Along] | None:
    found: dict[int, _Along] = {}
    slices: dict[int, Expression] = {}
    chain: list[Operation] = []
    while isinstance(op := tile.owner, Operation) and op.operands:
        chain.append(op)
        tile = op.operands[0]
    for op in reversed(chain):
        match op:
            case MemberOp():
                found[-1] = (), op.index, 1
            case SliceOp():
                mode = op.mode.value.data
                slices[mode] = (slices.get(mode), expression_of(op.operands[1]))
            case LocalTileOp():
                for mode, (at, extent) in enumerate(
                    zip(op.coords, op.tile.get_values(), strict=True)
                ):
                    if extent >= 0:
                        found[mode] = slices.get(mode), at, max(1, extent)
            case IndexedTileOp() | ConcatOp():
                return None
            case _:
                pass
    return found


def _needs(
    read: _Use, write: _Use, items: list[_Item], writers: dict[SSAValue, list[Operation]]
) -> _Needs:
    """What has to hold for a read view to see none of what was written where both tensors are one:
    by this work item before, by another one, or by a thread that is ahead of the one that reads.
    """
    mine, theirs = read.modes, write.modes
    if mine is None or theirs is None or may_see(read.access, write.access):
        return None
    if not _feeds(read.access, write.access, writers):
        return None
    same = [mode for mode in mine if mode in theirs and _are_alike(mine[mode], theirs[mode])]
    is_one_tile = _are_one_tile(read, write)
    needs: set[tuple[int, int, int]] = set()
    for item in items:
        coords = [mine[mode][1] for mode in same]
        # Other work items are elsewhere along such a mode; else no two store to one tile.
        if any(_counted(coord) is item.coord for coord in coords):
            continue
        if is_one_tile and any(depends_on(coord, item.coord) for coord in coords):
            continue
        if item.of is None:
            return None
        needs.add(item.of)
    return frozenset(needs)


def _are_one_tile(one: _Use, other: _Use) -> bool:
    """Whether two views are the same tile, of tensors that may be one."""
    mine, theirs = one.modes, other.modes
    return (
        mine is not None
        and theirs is not None
        and mine.keys() == theirs.keys()
        and all(_are_alike(mine[mode], theirs[mode]) for mode in mine)
    )


def _are_as_large(one: _Use, other: _Use) -> bool:
    """Whether two views are tiles of the same extents: they are one where the work items do not
    differ along a mode, although a coordinate follows them in one of the views alone.
    """
    mine, theirs = one.modes, other.modes
    return (
        mine is not None
        and theirs is not None
        and mine.keys() == theirs.keys()
        and all(mine[mode][::2] == theirs[mode][::2] for mode in mine)
    )


def _are_alike(one: _Along, other: _Along) -> bool:
    return one[2] == other[2] and one[0] == other[0] and _is_same(one[1], other[1])


def _counted(coord: SSAValue) -> SSAValue:
    """The number of which a coordinate is a multiple, and some constant more."""
    while isinstance(op := coord.owner, arith.AddiOp | arith.SubiOp | arith.MuliOp):
        constant = constant_of(op.rhs)
        if constant is None or (constant == 0 and isinstance(op, arith.MuliOp)):
            break
        coord = op.lhs
    return coord


def _writers(kernel: KernelOp) -> dict[SSAValue, list[Operation]]:
    """The ops that write each register tile."""
    found: dict[SSAValue, list[Operation]] = {}
    for op in walk(kernel.body.block):
        for tile in effects_of(op).writes:
            if isinstance(tile.owner, AllocFragmentOp):
                found.setdefault(tile, []).append(op)
    return found


def _feeds(read: Access, write: Access, writers: dict[SSAValue, list[Operation]]) -> bool:
    """Whether an element of what is written is computed from the one in its place of what is read,
    so that no thread stores there before that was loaded: a tile that is only turned has others.
    """
    turned = _turns(read.tile) ^ _turns(write.tile)
    pending, known = [(write.op, turned)], {(id(write.op), turned)}
    while pending:
        op, is_turned = pending.pop()
        if op is read.op:
            if not is_turned:
                return True
            continue
        if isinstance(op, TransposeOp):
            is_turned = not is_turned
        # All of an operand is there before any of a product is.
        ways = (False, True) if isinstance(op, GemmOp) else (is_turned,)
        for value in op.operands:
            if not isinstance(value.owner, Operation):
                continue
            for maker in (value.owner, *writers.get(value, ())):
                for way in ways:
                    if (id(maker), way) not in known:
                        known.add((id(maker), way))
                        pending.append((maker, way))
    return False


def _turns(tile: SSAValue) -> bool:
    """Whether a view has its modes exchanged."""
    is_turned = False
    while isinstance(tile.owner, Operation) and tile.owner.operands:
        is_turned ^= isinstance(tile.owner, TransposeOp)
        tile = tile.owner.operands[0]
    return is_turned
