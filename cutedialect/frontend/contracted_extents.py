"""Extents that a program multiplies with each other: where both operands of a multiply are tiles of
arguments, at one place along the mode that is summed over, these modes have to be equally long.
Beyond the shorter one tiles read 0, so that a wrong argument would give a wrong product silently.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.traits import Pure

from cutedialect.dialects.cute import (
    GemmOp,
    KernelOp,
    LaunchOp,
    LoadOp,
    LocalTileOp,
    MapOp,
    TransposeOp,
    shape_of,
)
from cutedialect.dialects.walks import walk

# Place of an argument and its mode, twice, and up to where they have to be equally long.
Pair = tuple[int, int, int, int, int | None]


def contracted_extents(module: ModuleOp) -> tuple[Pair, ...]:
    """The modes of the program's arguments whose extents have to be equal, from a module as it is
    traced: one kernel, or kernels with a host part that launches them.
    """
    kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
    hosts = [op for op in module.ops if isinstance(op, func.FuncOp)]
    found: dict[Pair, None] = {}
    if not hosts:
        for kernel in kernels.values():
            found |= dict.fromkeys(_of_kernel(kernel))
        return tuple(found)
    for host in hosts:
        places: dict[SSAValue, int] = {a: n for n, a in enumerate(host.body.block.args)}
        for launch in walk(host):
            if not isinstance(launch, LaunchOp):
                continue
            given = [places.get(arg) for arg in launch.args]
            pairs = _of_kernel(kernels[launch.kernel.string_value()])
            for one, mode, other, its_mode, limit in pairs:
                first, second = given[one], given[other]
                if first is not None and second is not None:
                    found[first, mode, second, its_mode, limit] = None
    return tuple(found)


def _of_kernel(kernel: KernelOp) -> list[Pair]:
    block = kernel.body.block
    pairs: list[Pair] = []
    for op in walk(kernel):
        if not isinstance(op, GemmOp):
            continue
        a, b = _place(op.a, 1, block), _place(op.b, 1, block)
        if a is None or b is None or (a.argument, a.mode) == (b.argument, b.mode):
            continue
        if a.extent == b.extent and _is_same(a.coord, b.coord):
            # Of a tile at a fixed place it does not matter what lies behind it.
            made = a.coord.owner
            at = made.value if isinstance(made, arith.ConstantOp) else None
            limit = (at.value.data + 1) * a.extent if isinstance(at, IntegerAttr) else None
            pairs.append((a.argument, a.mode, b.argument, b.mode, limit))
    return pairs


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
