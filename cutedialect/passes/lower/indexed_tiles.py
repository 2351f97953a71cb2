"""Tiles whose rows a register tile numbers: each row that a thread has elements of is a tile of its
own, at an address of its own. A row that the tensor does not have is neither loaded nor stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Operation, SSAValue

from cutedialect.dialects import cute, ptx
from cutedialect.dialects.cute import FragmentType
from cutedialect.dialects.cute_nvgpu import SimtAsyncCopyType
from cutedialect.layout import Layout
from cutedialect.passes.analysis.coordinates import Digit, ThreadValue, thread_value

from .addresses import Address, start_copies
from .context import Context, array_class, fail, pack_factor, register_class, register_count
from .copies import Transfer, merge_units, reduced_units, split_units, store_tile
from .elementwise import Fragment
from .lowering import Handler, KernelLowering, integers
from .memory_copies import valid_bytes
from .scalar_builder import Scalar, ScalarBuilder
from .tile_access import TileAccess, owner
from .views import View, local_tile


@dataclass(frozen=True)
class IndexedTile:
    """A tile of numbered rows: the tensor, the tile and its coordinates in it, the modes whose
    coordinates may lie outside, the mode of the rows, their numbers, and the extents that
    coordinates count.
    """

    tensor: View
    tile: tuple[int, ...]
    coords: tuple[Scalar, ...]
    guarded: tuple[int, ...]
    mode: int
    rows: Fragment
    of: tuple[int, ...]
    # The coordinates of each row along the last mode of the tile, where they differ.
    places: tuple[int, Fragment] | None = None

    def row(self, builder: ScalarBuilder, number: Scalar, at: int) -> View:
        """The part of the row with a number that lies in the tile's columns; the number is the
        value `at` of those that a thread has.
        """
        tile, of, coords = list(self.tile), list(self.of), list(self.coords)
        tile[self.mode], of[self.mode], coords[self.mode] = 0, 0, number
        if self.places is not None:
            mode, places = self.places
            coords[mode] = builder.get(places.array, at)
        guarded = (*self.guarded, self.mode)
        return local_tile(builder, self.tensor, tuple(tile), tuple(coords), guarded, tuple(of))


@dataclass
class RowAccess(TileAccess):
    """One row of a tile seen through the thread-value layout of the tile: `whole` has its threads,
    `columns` where in the row each of a thread's values is.
    """

    whole: ThreadValue = field(kw_only=True)
    columns: tuple[int, ...] = field(kw_only=True)

    @property
    def is_uniform(self) -> bool:
        return False

    @cached_property
    def layout(self) -> ThreadValue:
        rank = len(self.view.leaf_shape)
        threads = tuple(
            Digit(each.divisor, each.extent, each.steps[1 : 1 + rank])
            for each in self.whole.threads
        )
        count = len(self.columns)
        return ThreadValue(self.view.leaf_shape, threads, (), self.whole.thread_count, count)

    @cached_property
    def coords(self) -> list[tuple[int, ...]]:
        rank = len(self.view.leaf_shape)
        return [(column,)[:rank] for column in self.columns]

    def owner(self) -> Scalar:
        return owner(self.context, self.whole.threads, self.whole.thread_count)


def move_rows(
    context: Context,
    tile: IndexedTile,
    fragment: Fragment,
    kind: type[ptx.LdOp | ptx.StOp | ptx.RedOp],
    limit_bytes: int = 16,
    mask: SSAValue | None = None,
    operation: str = "",
    type_: str = "",
    order: str = "relaxed.gpu",
) -> None:
    """Gather (`ptx.ld`), scatter, or combine with memory as `copies.Transfer` does: the elements of
    each row that a thread has, by registers of their own.
    """
    builder, layout = context.builder, fragment.layout
    loads = kind is ptx.LdOp
    if mask is not None:
        limit_bytes = tile.tensor.element_bytes
    most_units = TileAccess.most_units
    if kind is ptx.RedOp:
        most_units = reduced_units(context, operation, type_)
    values: dict[int, list[int]] = {}
    for value, (row, _) in enumerate(layout.value_coords()):
        values.setdefault(row, []).append(value)
    numbers = thread_value(tile.rows.tv, tile.rows.type.shape).value_coords()
    places = {row: at for at, (row, _) in enumerate(numbers)}
    columns = [column for _, column in layout.value_coords()]
    array, pack = fragment.array, pack_factor(tile.tensor.element)
    is_packed = all(_in_registers(each, pack) for each in values.values())
    if not is_packed:
        # Elements of several rows share a register.
        array = context.registers("b16", pack * fragment.array.type.count)  # pyright: ignore
        if not loads:
            split_units(context, fragment.array, array)
        pack = 1
    for row, held in values.items():
        number = builder.get(tile.rows.array, places[row])
        part = context.registers(array_class(array), len(held) // pack)
        registers, every = [value // pack for value in held[::pack]], range(len(held) // pack)
        chosen = None
        if mask is not None:
            chosen = context.registers("pred", len(held))
            context.move(mask, held, chosen, range(len(held)))
        access = RowAccess(
            context,
            tile.row(builder, number, places[row]),
            fragment.tv,
            pack,
            limit_bytes,
            chosen,
            most_units,
            whole=layout,
            columns=tuple(columns[value] for value in held),
        )
        if not loads:
            context.move(array, registers, part, every)
        Transfer(access, part, kind, operation, type_, order).run()
        if loads:
            context.move(part, every, array, registers)
    if not is_packed and loads:
        merge_units(context, array, fragment.array, len(columns))


def copy_rows_async(
    context: Context,
    tile: IndexedTile,
    target: View,
    tv: Layout,
    atom: SimtAsyncCopyType,
    predicate: Scalar,
) -> None:
    """Start the copies of a tile of numbered rows to shared memory, whose threads have the numbers
    of the rows that they copy; none where `predicate` (the same for all threads) is false. Of a row
    that the tensor does not have nothing is read, and its place becomes 0.
    """
    size, count = atom.bits // 8, atom.bits // tile.tensor.bits
    writes = TileAccess(context, target, tv, count, size)
    sources: list[Address] = []
    sizes: list[Scalar] = []
    places: list[Address] = []
    for row, held in _parts_by_rows(context, tile, tv).items():
        part = _row_of_copy(context, tile, tv, row, held, count, size)
        for access in (part, writes):
            if access.unit != count:
                raise ValueError(
                    f"expected {count} values in a row to lie together and be aligned to {size} "
                    f"bytes for cp.async of {size} bytes, got {access.unit} with {tv}; choose a "
                    "narrower atom or another thread-value layout"
                )
        firsts = range(0, len(held), count)
        sources += part.addresses([part.offsets[at] for at in firsts])
        sizes += [valid_bytes(part, at, count, size) for at in firsts]
        places += writes.addresses([writes.offsets[held[at]] for at in firsts])
    guard = context.builder.both(predicate, writes.owner())
    cache = "cg" if atom.cache == "global" else "ca"
    start_copies(context, cache, size, places, sources, sizes, [guard] * len(sizes))


def copy_rows(context: Context, tile: IndexedTile, target: View, tv: Layout) -> None:
    """Copy a tile of numbered rows to shared memory through registers."""
    type_ = FragmentType.get(tile.tensor.element, target.shape, tv)
    array = context.registers(register_class(type_.element), register_count(type_))
    move_rows(context, tile, Fragment(type_, array), ptx.LdOp)
    store_tile(context, target, array, tv)


def _parts_by_rows(context: Context, tile: IndexedTile, tv: Layout) -> dict[int, list[int]]:
    """The values of a thread by the rows that they lie in, counted from its first one."""
    del context
    shape = tuple(extent for extent in tile.tile if extent != 0)
    values: dict[int, list[int]] = {}
    for value, (row, _) in enumerate(thread_value(tv, shape).value_coords()):
        values.setdefault(row, []).append(value)
    return values


def _row_of_copy(
    context: Context,
    tile: IndexedTile,
    tv: Layout,
    row: int,
    held: list[int],
    pack: int,
    limit_bytes: int,
) -> RowAccess:
    """A row of a tile as a copy by `tv` sees it: the values `held` of a thread."""
    shape = tuple(extent for extent in tile.tile if extent != 0)
    layout = thread_value(tv, shape)
    numbers = thread_value(tile.rows.tv, tile.rows.type.shape).value_coords()
    at = next(at for at, (number, _) in enumerate(numbers) if number == row)
    columns = [column for _, column in layout.value_coords()]
    return RowAccess(
        context,
        tile.row(context.builder, context.builder.settled(tile.rows.array, at), at),
        tv,
        pack,
        limit_bytes,
        whole=layout,
        columns=tuple(columns[value] for value in held),
    )


def _in_registers(values: list[int], pack: int) -> bool:
    """Whether some values fill registers, so many values each, by themselves."""
    firsts = values[::pack]
    return values == [first + i for first in firsts for i in range(pack)] and not any(
        first % pack for first in firsts
    )


def _indexed_tile(self: KernelLowering, op: cute.IndexedTileOp) -> None:
    guard = op.attributes.get(cute.views.GUARD)
    rows = self.fragment(op, op.rows)
    if rows.type.tv is None:
        raise fail(op, f"expected bound row numbers (cute-partition), got {rows.type}")
    places = None
    if op.places is not None:
        places = op.last, self.fragment(op, op.places)
    self.indexed[op.result] = IndexedTile(
        self.view(op, op.memref),
        integers(op.tile),
        tuple(self.scalars[each] for each in op.coords),
        integers(guard) if isinstance(guard, DenseArrayBase) else (),
        op.mode,
        rows,
        op.counted,
        places,
    )


HANDLERS: dict[type[Operation], Handler] = {cute.IndexedTileOp: _indexed_tile}
