"""Copies by ordinary loads and stores: vectors where values lie together in memory, single elements
(and packing) where they do not, predicates only on the side of a branch that hangs over an edge.
Atomic reductions to memory take the same way as stores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.ir import SSAValue

from cutedialect.atoms import target
from cutedialect.dialects import ptx
from cutedialect.layout import Layout

from .addresses import Address, memory_op
from .context import Context, array_class, pack_factor
from .scalar_builder import Scalar
from .skewed_stores import skew_of, store_skewed
from .tile_access import TileAccess, Vector, row_access, rows_of
from .views import DynamicStride, Tile, View

# With more distinct predicates than this, rows become branches and only columns are predicated.
_MAX_PREDICATES = 12
# Accesses of at most so many instructions are predicated without a branch for the inner tiles.
_FEW = 4
_MAX_BYTES = 16
# What L2 is to bring from memory where a load wants a part of it, and from which target on.
_PREFETCH = ".L2::256B"
_PREFETCH_TARGET = 80
# The order and scope of reductions that name none.
_RELAXED = "relaxed.gpu"


def load_tile(
    context: Context, tile: Tile, array: SSAValue, tv: Layout, limit_bytes: int = _MAX_BYTES
) -> None:
    """Read the values of `tv` into the registers of `array`; 0 outside of the tensor."""
    _move(context, tile, array, tv, ptx.LdOp, limit_bytes=limit_bytes)


def store_tile(
    context: Context,
    tile: Tile,
    array: SSAValue,
    tv: Layout,
    limit_bytes: int = _MAX_BYTES,
    mask: SSAValue | None = None,
) -> None:
    """Write the registers of `array` to the values of `tv` that exist, each element once; with a
    `mask`, a predicate for each value, those for which it holds.
    """
    limit = limit_bytes if mask is None else tile.element_bytes
    _move(context, tile, array, tv, ptx.StOp, mask, limit_bytes=limit)


def reduce_tile(
    context: Context,
    tile: Tile,
    array: SSAValue,
    tv: Layout,
    operation: str,
    type_: str,
    order: str = _RELAXED,
) -> None:
    """Combine the registers of `array` with memory atomically (`red`), each element once."""
    kind = partial(Transfer, operation=operation, type_=type_, order=order)
    most_units = reduced_units(context, operation, type_)
    _move(context, tile, array, tv, ptx.RedOp, None, kind, most_units=most_units)


def _move(
    context: Context,
    tile: Tile,
    array: SSAValue,
    tv: Layout,
    kind: type[ptx.LdOp | ptx.StOp | ptx.RedOp],
    mask: SSAValue | None = None,
    transfer: Callable[..., Transfer] | None = None,
    **how: int,
) -> None:
    """Between registers and a tile; of numbered rows the elements of each row that a thread has, by
    registers of their own.
    """
    make, pack = transfer or Transfer, pack_factor(tile.element)
    if isinstance(tile, View):
        access = TileAccess(context, tile, tv, pack, mask=mask, **how)
        skew = skew_of(access) if kind is ptx.StOp else None
        if skew is not None:
            store_skewed(context, access, array, skew)
        else:
            make(access, array, kind).run()
        return
    rows, registers, loads = rows_of(tile, tv), array, kind is ptx.LdOp
    is_packed = all(_in_registers(row.values, pack) for row in rows)
    if not is_packed:
        # Elements of several rows share a register.
        registers = context.registers("b16", pack * array.type.count)  # type: ignore[union-attr]
        if not loads:
            split_units(context, array, registers)
        pack = 1
    for row in rows:
        held, every = (
            [value // pack for value in row.values[::pack]],
            range(len(row.values) // pack),
        )
        number = context.builder.get(tile.rows.array, row.place)
        part, chosen = context.registers(array_class(registers), len(every)), None
        if mask is not None:
            chosen = context.registers("pred", len(row.values))
            context.move(mask, row.values, chosen, range(len(row.values)))
        access = row_access(context, tile, tv, row, number, pack=pack, mask=chosen, **how)
        if not loads:
            context.move(registers, held, part, every)
        make(access, part, kind).run()
        if loads:
            context.move(part, every, registers, held)
    if not is_packed and loads:
        count = sum(len(row.values) for row in rows)
        merge_units(context, registers, array, count)


def _in_registers(values: Sequence[int], pack: int) -> bool:
    """Whether some values fill registers, so many values each, by themselves."""
    firsts = values[::pack]
    return not any(first % pack for first in firsts) and list(values) == [
        first + i for first in firsts for i in range(pack)
    ]


def reduced_units(context: Context, operation: str, type_: str) -> int:
    """Units that one instruction combines with memory: vectors of floats from sm_90 on (PTX ISA
    9.7.13.6), each element atomically by itself.
    """
    has_vectors = operation == "add" and type_ in ("f32", "f16", "bf16")
    return target(context.arch).reduced_floats if has_vectors else 1


@dataclass
class Transfer:
    """Loads into the registers of `array` (0 for what is outside of the tensor), stores, or atomic
    reductions, where an access has them. Reductions name the `operation`, the PTX type of
    elements, and in which order and by whom each is seen as one.
    """

    access: TileAccess
    array: SSAValue
    kind: type[ptx.LdOp | ptx.StOp | ptx.RedOp]
    operation: str = ""
    type_: str = ""
    order: str = _RELAXED

    def __post_init__(self) -> None:
        self.context = self.access.context
        self.loads = self.kind is ptx.LdOp

    def run(self, is_inside: bool | None = None) -> None:
        """The whole tile at once where it lies in the tensor, which may be known, else with
        predicates.
        """
        access, context = self.access, self.context
        each = access.never_straddling()
        is_cut = each is not access
        keeps_vectors = is_cut and context.is_streaming and is_inside is None
        whole = partial(self._move, access, is_inside=True)
        ragged = partial(self._in_vectors if keeps_vectors else self._move, each)
        is_short = not is_cut and len(access.vectors) <= _FEW
        has_branch = access.is_uniform or (is_cut and not keeps_vectors)
        if is_inside or not access.is_bounded:
            whole()
        elif is_inside is False or is_short or not has_branch:
            ragged()
        else:
            # What both sides of the branch need is written before it.
            self._share(access.vectors)
            context.when(access.inside(), whole, ragged)

    def _move(self, access: TileAccess, is_inside: bool = False) -> None:
        guard = self._guard(access)

        def run(units: SSAValue) -> None:
            if is_inside:
                guards = [access.masked(vector, guard) for vector in access.vectors]
                self._emit(access, units, access.vectors, guards)
                return
            if self.loads:
                self.context.fill(units, 0)
            self._predicated(access, units, guard, access.vectors)

        self._with_units(access, run)

    def _guard(self, access: TileAccess) -> Scalar:
        return True if self.loads else access.owner()

    def _in_vectors(self, each: TileAccess) -> None:
        """Where memory is all that a kernel waits for, tiles at an edge keep the vectors that lie
        in the tensor; the elements of those that the edge cuts go one by one, as `each` has them.
        """
        context, access = self.context, self.access
        guard = self._guard(access)

        def run(units: SSAValue) -> None:
            if self.loads:
                context.fill(units, 0)
            self._predicated(access, units, guard, access.vectors)
            parts = units
            if access.unit > 1:
                parts = context.registers("b16", units.type.count * access.unit)  # type: ignore[union-attr]

            def cut() -> None:
                if not (self.loads and self._cut_of_row(units)):
                    self._cut(each, units, parts, guard)

            context.when(context.builder.pure("not.pred", access.keeps_vectors()), cut)

        self._with_units(access, run)

    def _mode_of_cut(self) -> tuple[int, list[int]] | None:
        """The mode along which the edge cuts vectors of one size, and the others that have edges;
        None where it is none or several.
        """
        access, vectors = self.access, self.access.vectors
        spans = {mode: [access.span(each, mode) for each in vectors] for mode in access.bounded}
        modes = [mode for mode in spans if any(first < last for first, last in spans[mode])]
        if len(modes) != 1 or len({len(vector.values) for vector in vectors}) != 1:
            return None
        return modes[0], [mode for mode in spans if mode not in modes]

    def _is_one_row(self, mode: int, others: Sequence[int]) -> bool:
        """Whether a thread's vectors are those of one row along a mode of memory, each once."""
        access, vectors = self.access, self.access.vectors
        rows = {tuple(access.span(each, other) for other in others) for each in vectors}
        places = {access.span(each, mode) for each in vectors}
        has_floor = access.view.bound(mode).floor is not None
        is_open = access.view.space == "gmem" and not has_floor
        return is_open and len(rows) == 1 and len(places) == len(vectors)

    def _cut_of_row(self, units: SSAValue) -> bool:
        """Load the elements of the one vector that the edge cuts where a thread has a single row,
        without a branch, so that the assembler may load each vector right before it is used; False
        where a thread has more.
        """
        context, access, builder = self.context, self.access, self.context.builder
        found = self._mode_of_cut()
        if found is None:
            return False
        mode, others = found
        vectors, width = access.vectors, len(access.vectors[0].values)
        row = [access.span(vectors[0], other) for other in others]
        spans = [access.span(each, mode) for each in vectors]
        addresses = access.addresses([each.offset for each in vectors])
        bases = {each.base for each in addresses}
        if len(bases) != 1 or not self._is_one_row(mode, others):
            return False
        exists = builder.both(
            access.view.guard,
            *(access.holds(other, *span) for other, span in zip(others, row, strict=True)),
        )
        # Of the vector that is cut: how many of its elements exist, and where it lies. Of none, 0.
        left: Scalar = 0
        at: Scalar = addresses[0].immediate
        cuts: list[Scalar] = []
        for span, address in zip(spans, addresses, strict=True):
            touches = builder.both(exists, access.touches(mode, *span))
            cuts.append(builder.both(touches, builder.pure("not.pred", access.holds(mode, *span))))
            rest = builder.pure("sub.s32", access.remaining(mode), span[0])
            left = builder.pure("selp.b32", rest, left, cuts[-1])
            at = builder.pure("selp.b32", address.immediate, at, cuts[-1])
        count, size = width * access.unit, access.view.element_bytes
        cls = array_class(units)
        parts = context.registers(cls if access.unit == 1 else "b16", count)
        context.foreach(count, [], [(parts, range(count))], lambda args: [0])
        base = builder.pure("add.s64", *bases, builder.widen(at))
        elements = [Address(base, i * size) for i in range(count)]
        guards = [builder.pure("setp.gt.s32", left, i) for i in range(count)]
        memory_op(context, ptx.LdOp, f"global.b{8 * size}", parts, elements, guards=guards)
        merged = parts
        if access.unit > 1:
            merged = context.registers(cls, width)
            merge_units(context, parts, merged)
        for vector, cut in zip(vectors, cuts, strict=True):
            targets = [v // access.unit for v in vector.values]

            def chosen(args: list[SSAValue], cut: Scalar = cut) -> list[Scalar]:
                return [builder.pure(f"selp.{cls}", *args, cut)]

            sources = [(merged, range(width)), (units, targets)]
            context.foreach(width, sources, [(units, targets)], chosen)
        return True

    def _cut(self, each: TileAccess, units: SSAValue, parts: SSAValue, guard: Scalar) -> None:
        """The elements in the tensor of vectors that its edges cut, by way of the registers
        `parts`.
        """
        context, access, builder = self.context, self.access, self.context.builder
        single = {vector.values[0]: vector for vector in each.vectors}
        cut: dict[tuple[int, tuple[int, int]], list[Vector]] = {}
        for vector in access.vectors:
            for mode in access.bounded:
                span = access.span(vector, mode)
                if span[0] < span[1]:
                    cut.setdefault((mode, span), []).append(vector)

        def one(vectors: list[Vector]) -> None:
            firsts = [v for vector in vectors for v in vector.values]
            values = [v + i for v in firsts for i in range(access.unit)]
            registers = [v // access.unit for v in firsts]
            if access.unit > 1 and self.loads:
                context.foreach(len(values), [], [(parts, values)], lambda args: [0])
            if access.unit > 1 and not self.loads:
                split_units(context, units, parts, registers)
            self._predicated(each, parts, guard, [single[value] for value in values])
            if access.unit > 1 and self.loads:
                merge_units(context, parts, units, registers=registers)

        for (mode, span), vectors in cut.items():
            is_whole = access.holds(mode, *span)
            is_cut = builder.both(access.touches(mode, *span), builder.pure("not.pred", is_whole))
            context.when(is_cut, partial(one, vectors))

    def _predicated(
        self, access: TileAccess, units: SSAValue, guard: Scalar, vectors: Sequence[Vector]
    ) -> None:
        """Some of the accesses, with a predicate for each row and column that may be outside."""
        context, builder = self.context, self.context.builder
        guard = builder.both(guard, access.view.guard)
        where = {mode: [access.span(each, mode) for each in vectors] for mode in access.bounded}
        together = len(set(zip(*where.values(), strict=True)))
        if len(where) <= 1 or together <= _MAX_PREDICATES:
            guards = [
                builder.both(
                    access.masked(vector, guard),
                    *(access.holds(mode, *at[i]) for mode, at in where.items()),
                )
                for i, vector in enumerate(vectors)
            ]
            self._emit(access, units, vectors, guards)
            return
        row = self._mode_of_branches(access, {mode: len(set(at)) for mode, at in where.items()})
        others = [mode for mode in where if mode != row]
        columns = [
            builder.both(*(access.holds(mode, *where[mode][i]) for mode in others))
            for i in range(len(vectors))
        ]
        self._share(vectors, access)

        def one(chosen: list[int]) -> None:
            guards = [access.masked(vectors[i], columns[i]) for i in chosen]
            self._emit(access, units, [vectors[i] for i in chosen], guards)

        for span in sorted(set(where[row])):
            chosen = [i for i, at in enumerate(where[row]) if at == span]
            context.when(builder.both(guard, access.holds(row, *span)), partial(one, chosen))

    def _mode_of_branches(self, access: TileAccess, counts: dict[int, int]) -> int:
        """The mode whose places get a branch each, by how many each mode has: the one with the
        fewest, or with a step that is known at run time, so that addresses of a branch differ by
        constants.
        """
        fewest = min(counts, key=counts.__getitem__)
        if not self.context.is_streaming:
            return fewest
        strides = access.view.leaf_strides
        steps = [m for m in counts if isinstance(strides[access.leaf_of(m)], DynamicStride)]
        is_short = all(counts[m] <= _MAX_PREDICATES for m in counts if m not in steps)
        return steps[0] if len(steps) == 1 and is_short else fewest

    def _share(self, vectors: Sequence[Vector], access: TileAccess | None = None) -> None:
        """Compute addresses before a branch. Where memory is all that a kernel waits for, CTAs
        count more than instructions: each branch steps from the first address itself, so that no
        register holds an address across it.
        """
        shared = vectors[:1] if self.context.is_streaming else vectors
        (access or self.access).addresses([vector.offset for vector in shared])

    def _with_units(self, access: TileAccess, run: Callable[[SSAValue], None]) -> None:
        """Run on an array with one register for each unit of the access."""
        context, array = self.context, self.array
        parts = access.pack // access.unit
        if parts == 1:
            run(array)
            return
        units = context.registers("b16", array.type.count * parts)  # type: ignore[union-attr]
        if self.loads:
            run(units)
            merge_units(context, units, array, len(access.offsets) // access.unit)
        else:
            split_units(context, array, units)
            run(units)

    def _emit(
        self,
        access: TileAccess,
        units: SSAValue,
        vectors: Sequence[Vector],
        guards: Sequence[Scalar],
    ) -> None:
        """One op for each vector length."""
        addresses = access.addresses([vector.offset for vector in vectors])
        for width in sorted({len(vector.values) for vector in vectors}, reverse=True):
            chosen = [i for i, vector in enumerate(vectors) if len(vector.values) == width]
            memory_op(
                self.context,
                self.kind,
                self._modifiers(access, width),
                units,
                [addresses[i] for i in chosen],
                [v // access.unit for i in chosen for v in vectors[i].values],
                [guards[i] for i in chosen],
            )

    def _modifiers(self, access: TileAccess, width: int) -> str:
        """Where memory is all that a kernel waits for, loads of small parts of lines ask L2 for
        what other lanes load beside them.
        """
        vector = f".v{width}" if width > 1 else ""
        if self.kind is ptx.RedOp:
            pair = "x2" if access.unit == 2 else ""
            rounding = ".noftz" if self.type_ in ("f16", "bf16") else ""
            head = f"{self.order}.global.{self.operation}{rounding}"
            return f"{head}{vector}.{self.type_}{pair}"
        space = "global" if access.view.space == "gmem" else "shared"
        if self.loads and self.context.is_streaming and access.leaves_lines:
            space += _PREFETCH if target(self.context.arch).number >= _PREFETCH_TARGET else ""
        # Loads and stores move plain bits, whatever the class of the registers.
        return f"{space}{vector}.b{access.unit * access.view.bits}"


def split_units(
    context: Context, array: SSAValue, units: SSAValue, registers: Sequence[int] | None = None
) -> None:
    """The elements of registers, all or some, one 16-bit register each."""
    count: int = array.type.count  # type: ignore[union-attr]
    parts = units.type.count // count  # type: ignore[union-attr]
    registers = range(count) if registers is None else registers

    def body(args: list[SSAValue]) -> list[Scalar]:
        return context.builder.parts(args[0], parts)

    targets = [(units, [r * parts + i for r in registers]) for i in range(parts)]
    context.foreach(len(registers), [(array, registers)], targets, body)


def merge_units(
    context: Context,
    units: SSAValue,
    array: SSAValue,
    used: int | None = None,
    registers: Sequence[int] | None = None,
) -> None:
    """The reverse of `split_units` for the first `used` units, of which the last one also fills its
    register up.
    """
    count: int = array.type.count  # type: ignore[union-attr]
    parts = units.type.count // count  # type: ignore[union-attr]
    last = (count * parts if used is None else used) - 1
    registers = range(count) if registers is None else registers
    bits = 32 if array_class(array) == "b32" else 16

    def body(args: list[SSAValue]) -> list[Scalar]:
        return [context.builder.joined(args, bits)]

    sources = [(units, [min(r * parts + i, last) for r in registers]) for i in range(parts)]
    context.foreach(len(registers), sources, [(array, registers)], body)
