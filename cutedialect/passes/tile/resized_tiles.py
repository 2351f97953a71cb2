"""Tiles with other extents, for the steps of `cute-tile` that pad, cut, join, share and walk them:
views of tensors, what is transposed of them, register tiles, the coordinates that maps ask for, and
elements behind the end of what is there, which reductions are not to see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cutedialect.dialects import cute
from cutedialect.dialects.cute.views import transposed_type
from cutedialect.passes.analysis.memory_views import constant_of
from cutedialect.passes.rewriting import ScalarBuilder, insert_before

View = cute.LocalTileOp | cute.IndexedTileOp
RESIZABLE = (
    cute.AllocFragmentOp,
    cute.AtomicOp,
    cute.CopyOp,
    cute.FillOp,
    cute.LoadOp,
    cute.MapOp,
    cute.ReduceOp,
    cute.TransposeOp,
)
"""Ops that do the same with register tiles of any extents."""


def resize_tiles(
    ops: Iterable[Operation],
    extents: Callable[[SSAValue], Mapping[int, int]],
    resize: Callable[[View], object],
    start: SSAValue | None = None,
) -> None:
    """Give register tiles other extents by their modes, and views of tensors those that `resize`
    gives them; what maps ask for of coordinates along such modes counts from `start` on.
    """
    for op in list(ops):
        match op:
            case cute.LocalTileOp() | cute.IndexedTileOp():
                resize(op)
            case cute.TransposeOp() if isinstance(op.source.type, cute.MemRefType):
                type_ = transposed_type(op.source.type)
                if type_ != op.result.type:
                    Rewriter.replace_value_with_new_type(op.result, type_)
            case _:
                if isinstance(op, cute.MapOp) and start is not None:
                    count_from(op, extents(op.result), start)
                for result in op.results:
                    resize_fragment(result, extents(result))


def resize_view(
    op: View,
    tile: Sequence[int],
    coords: Sequence[SSAValue] | None = None,
    memref: SSAValue | None = None,
    of: Sequence[int] | None = None,
) -> View:
    """Replace a view by one of other extents, also of another tensor or at other coordinates."""
    coords = list(op.coords) if coords is None else coords
    memref = op.memref if memref is None else memref
    again = (
        cute.LocalTileOp(memref, tile, coords, of)
        if isinstance(op, cute.LocalTileOp)
        else cute.IndexedTileOp(memref, tile, coords, op.rows, of, op.places, _same(op, tile))
    )
    again.attributes |= op.attributes
    again.location = op.location
    again.result.name_hint = op.result.name_hint
    Rewriter.replace_op(op, again)
    return again


def _same(op: cute.IndexedTileOp, tile: Sequence[int]) -> SSAValue | None:
    """What says in another way which rows a tile has, of a tile of the same extents."""
    return op.pixels if list(tile) == list(op.tile.get_values()) else None


def resize_fragment(value: SSAValue, extents: Mapping[int, int]) -> None:
    """Give a register tile other extents by its modes; anything else stays."""
    type_ = value.type
    if isinstance(type_, cute.FragmentType) and extents:
        shape = tuple(extents.get(mode, extent) for mode, extent in enumerate(type_.shape))
        Rewriter.replace_value_with_new_type(value, cute.FragmentType.get(type_.element, shape))


def count_from(op: cute.MapOp, modes: Iterable[int], start: SSAValue) -> None:
    """Let the coordinates along some modes that a map asks for count from an element of a longer
    tile, or of a row.
    """
    for at in list(op.body.block.ops):
        if isinstance(at, cute.CoordOp) and at.mode.value.data in modes:
            uses = list(at.result.uses)
            moved = ScalarBuilder(InsertPoint.after(at), at).add(at.result, start)
            for use in uses:
                use.operation.operands[use.index] = moved


def kept_modes(view: View) -> list[int]:
    """The modes of a tensor that its tile keeps."""
    return [mode for mode, extent in enumerate(view.tile.get_values()) if extent != 0]


def fragment_shape(value: SSAValue) -> tuple[int, ...]:
    """The shape of a register tile, () of anything else."""
    return value.type.shape if isinstance(value.type, cute.FragmentType) else ()


def fragment_shapes(op: Operation) -> list[tuple[int, ...]]:
    """The shapes of the register tiles that an op takes and gives."""
    return [shape for each in (*op.operands, *op.results) if (shape := fragment_shape(each))]


def size_of(value: SSAValue) -> int:
    """How many elements a register tile has, 0 of anything else."""
    return prod(fragment_shape(value)) if fragment_shape(value) else 0


def moved_by(op: Operation) -> list[cute.MemRefType]:
    """The tiles of memory that an op loads or stores."""
    values = op.operands if isinstance(op, cute.LoadOp | cute.CopyOp | cute.AtomicOp) else ()
    return [value.type for value in values if isinstance(value.type, cute.MemRefType)]


def origins_of(coord: SSAValue, extent: int) -> list[SSAValue]:
    """The first element of tiles of an extent at a coordinate, as a kernel computes it."""
    found: list[SSAValue] = [coord] if extent == 1 else []
    for use in coord.uses:
        op = use.operation
        if isinstance(op, arith.MuliOp) and constant_of(op.operands[1 - use.index]) == extent:
            found.append(op.result)
    return found


def only_begins_tiles(
    coord: SSAValue, extent: int, mode_of: Callable[[cute.MapOp], int | None]
) -> bool:
    """Whether a coordinate of a work item, but for views that take it, only says where tiles of an
    extent begin: maps add the first element to the coordinate along the mode that is theirs.
    """
    origins = origins_of(coord, extent)

    def begins(op: Operation) -> bool:
        if isinstance(op, cute.LocalTileOp):
            return True
        if isinstance(op, arith.MuliOp):
            return op.result in origins
        inside = op.parent_op()
        return (
            isinstance(op, arith.AddiOp)
            and isinstance(inside, cute.MapOp)
            and any(
                origin in origins
                and isinstance(at.owner, cute.CoordOp)
                and at.owner.mode.value.data == mode_of(inside)
                for at, origin in (op.operands, op.operands[::-1])
            )
        )

    return all(begins(use.operation) for value in {coord, *origins} for use in value.uses)


def is_added_to(coordinate: cute.CoordOp, origins: Sequence[SSAValue]) -> bool:
    """Whether a coordinate inside of a tile is only added to where the tile begins."""
    return all(
        isinstance(use.operation, arith.AddiOp)
        and any(value in origins for value in use.operation.operands)
        for use in coordinate.result.uses
    )


def hide(
    op: cute.ReduceOp | cute.AnyOp | cute.ScanOp,
    limits: Mapping[int, int],
    start: SSAValue | None = None,
    kind: str = "add",
) -> None:
    """Let a reduction, or a scan of a kind, find what changes nothing where coordinates, counted
    from `start` on, reach their limits. A map that nothing else reads does it itself.
    """
    type_ = cute.fragment_of(op.source)
    if isinstance(op, cute.ReduceOp):
        kind = op.kind.data
    made = op.source.owner
    if not (isinstance(made, cute.MapOp) and len(list(op.source.uses)) == 1):
        block = Block(arg_types=[type_.element])
        ScalarBuilder(InsertPoint.at_end(block), op).insert(cute.YieldOp(block.args[0]))
        made = cute.MapOp([op.source], type_, block)
        insert_before(op, made)
        op.operands[0] = made.result
    end = made.body.block.last_op
    assert isinstance(end, cute.YieldOp)
    build = ScalarBuilder(InsertPoint.before(end), end)
    for mode, extent in limits.items():
        at, limit = build.value(cute.CoordOp(mode)), build.constant(extent)
        at = at if start is None else build.add(at, start)
        is_there = build.compare("slt", at, limit)
        none = neutral_value(build, kind, type_.element)
        end.operands[0] = build.select(is_there, end.value, none)


_FLOATS = {
    "add": (0.0, arith.AddfOp),
    "mul": (1.0, arith.MulfOp),
    "max": (float("-inf"), arith.MaximumfOp),
    "min": (float("inf"), arith.MinimumfOp),
}
_INTEGERS = {"add": arith.AddiOp, "mul": arith.MuliOp, "max": arith.MaxSIOp, "min": arith.MinSIOp}
_UNSIGNED = {**_INTEGERS, "max": arith.MaxUIOp, "min": arith.MinUIOp}


def neutral(kind: str, element: Attribute) -> Attribute:
    """What a reduction does not notice."""
    if isinstance(element, IntegerType):
        top = 1 << element.width.data - 1
        least, most = (0, -1) if is_unsigned(element) else (-top, top - 1)
        # arith has constants of signless integers only; an unsigned one has the same bits.
        signless = IntegerType(element.width.data)
        return IntegerAttr({"add": 0, "mul": 1, "max": least, "min": most}[kind], signless)
    assert isinstance(element, AnyFloat)
    return FloatAttr(_FLOATS[kind][0], element)


def neutral_ops(kind: str, element: Attribute) -> list[Operation]:
    """What makes the value that a reduction does not notice, which the last of them gives."""
    made = arith.ConstantOp(neutral(kind, element))  # pyright: ignore[reportArgumentType]
    return [made, arith.BitcastOp(made.result, element)] if is_unsigned(element) else [made]


def neutral_value(build: ScalarBuilder, kind: str, element: Attribute) -> SSAValue:
    """What a reduction does not notice, as a value."""
    *first, last = neutral_ops(kind, element)
    for op in first:
        build.insert(op)
    return build.value(last)


def combined(kind: str, one: SSAValue, other: SSAValue) -> cute.MapOp:
    """The results of a reduction of two parts as one."""
    type_ = cute.fragment_of(one)
    if isinstance(type_.element, AnyFloat):
        made = _FLOATS[kind][1]
    else:
        made = (_UNSIGNED if is_unsigned(type_.element) else _INTEGERS)[kind]
    return cute.MapOp.of(made, [one, other], type_)


def is_unsigned(element: Attribute) -> bool:
    """Whether an element is an unsigned integer."""
    return isinstance(element, IntegerType) and element.signedness.data is Signedness.UNSIGNED
