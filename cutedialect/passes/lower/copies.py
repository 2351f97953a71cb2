"""Copies by ordinary loads and stores: vectors where values lie together in memory, single elements
(and packing) where they do not, predicates only on the side of a branch that hangs over an edge.
Atomic reductions to memory take the same way as stores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xdsl.ir import SSAValue

from cutedialect.atoms import target
from cutedialect.dialects import ptx
from cutedialect.layout import Layout

from .addresses import Offset
from .context import Context, array_class
from .scalar_builder import Scalar
from .tile_access import TileAccess, Vector
from .views import DynamicStride, View

# With more distinct predicates than this, rows become branches and only columns are predicated.
_MAX_PREDICATES = 12
# Accesses of at most so many instructions are predicated without a branch for the inner tiles.
_FEW = 4
_MAX_BYTES = 16
# What L2 is to bring from memory where a load wants a part of it, and from which target on.
_PREFETCH = ".L2::256B"
_PREFETCH_TARGET = 80
# From which target on atomics combine vectors.
_VECTOR_RED_TARGET = 90
# Elements that are loaded and stored one by one.
_SPLIT_BITS = (8, 16, 32, 64)

Emit = Callable[[TileAccess, SSAValue, Sequence[Vector], Sequence[Scalar]], None]


def copy_pack(view: View) -> int:
    """Elements of the view in one register of a fragment."""
    return 32 // view.bits if 1 < view.bits < 32 else 1


def load_tile(
    context: Context, view: View, array: SSAValue, tv: Layout, limit_bytes: int = _MAX_BYTES
) -> None:
    """Read the values of `tv` into the registers of `array`; 0 outside of the tensor."""
    load_access(TileAccess(context, view, tv, copy_pack(view), limit_bytes), array)


def load_access(access: TileAccess, array: SSAValue) -> None:
    """Read what an access has into the registers of `array`; 0 outside of the tensor."""
    context = access.context
    _transfer(context, access, array, True, partial(_move, context, ptx.LdOp))


def store_tile(
    context: Context,
    view: View,
    array: SSAValue,
    tv: Layout,
    limit_bytes: int = _MAX_BYTES,
    mask: SSAValue | None = None,
) -> None:
    """Write the registers of `array` to the values of `tv` that exist, each element once; with a
    `mask`, a predicate for each value, those for which it holds.
    """
    limit = limit_bytes if mask is None else view.element_bytes
    store_access(TileAccess(context, view, tv, copy_pack(view), limit, mask), array)


def store_access(access: TileAccess, array: SSAValue) -> None:
    """Write the registers of `array` where an access has them, of elements that exist."""
    context = access.context
    _transfer(context, access, array, False, partial(_move, context, ptx.StOp))


def reduce_tile(
    context: Context, view: View, array: SSAValue, tv: Layout, operation: str, type_: str
) -> None:
    """Combine the registers of `array` with memory atomically (`red`), each element once."""
    limit = reduced_bytes(context, view, operation, type_)
    access = TileAccess(context, view, tv, copy_pack(view), limit)
    reduce_access(access, array, operation, type_)


def reduced_bytes(context: Context, view: View, operation: str, type_: str) -> int:
    """Bytes that one instruction combines with memory: vectors of floats from sm_90 on (PTX ISA
    9.7.13.6), each element atomically by itself.
    """
    has_vectors = operation == "add" and type_ in ("f32", "f16", "bf16")
    if has_vectors and target(context.arch).number >= _VECTOR_RED_TARGET:
        return _MAX_BYTES
    return max(4, view.element_bytes)


def reduce_access(access: TileAccess, array: SSAValue, operation: str, type_: str) -> None:
    """Combine the registers of `array` with memory atomically, where an access has them."""
    context = access.context

    def emit(
        access: TileAccess, units: SSAValue, vectors: Sequence[Vector], guards: Sequence[Scalar]
    ) -> None:
        pair = "x2" if access.unit == 2 else ""
        rounding = "noftz." if type_ in ("f16", "bf16") else ""
        head, tail = f"relaxed.gpu.global.{operation}.{rounding}", f"{type_}{pair}"
        _memory_op(context, ptx.RedOp, (head, tail), access, units, vectors, guards)

    _transfer(context, access, array, False, emit)


def move_part(
    context: Context,
    view: View,
    array: SSAValue,
    tv: Layout,
    limit_bytes: int,
    loads: bool,
    is_inside: bool,
) -> None:
    """Loads (0 outside of the tensor) or stores of a part of a tile, of which it is known whether
    all of it lies in the tensor. `array` has a register for each element of up to 16 bits.
    """
    access = TileAccess(context, view, tv, 1, limit_bytes)
    emit = partial(_move, context, ptx.LdOp if loads else ptx.StOp)
    if is_inside or not access.is_bounded:
        _whole(context, access, array, loads, emit)
    else:
        _ragged(context, access.never_straddling(), array, loads, emit)


def _transfer(
    context: Context, access: TileAccess, array: SSAValue, loads: bool, emit: Emit
) -> None:
    """The whole tile at once where it lies in the tensor, else with predicates."""
    if not access.is_bounded:
        _whole(context, access, array, loads, emit)
        return
    each = access.never_straddling()
    if each is access and (len(access.vectors) <= _FEW or not access.is_uniform):
        _ragged(context, access, array, loads, emit)
        return
    if not access.is_uniform and context.is_streaming and access.view.bits in _SPLIT_BITS:
        _in_vectors(context, access, each, array, loads, emit)
        return
    # What both sides of the branch need is written before it.
    access.addresses(_shared(context, access.vectors))

    def ragged() -> None:
        if each is not access and context.is_streaming and access.view.bits in _SPLIT_BITS:
            _in_vectors(context, access, each, array, loads, emit)
        else:
            _ragged(context, each, array, loads, emit)

    context.when(access.inside(), lambda: _whole(context, access, array, loads, emit), ragged)


def _whole(context: Context, access: TileAccess, array: SSAValue, loads: bool, emit: Emit) -> None:
    guard: Scalar = True if loads else access.owner()

    def run(units: SSAValue) -> None:
        guards = [access.masked(vector, guard) for vector in access.vectors]
        emit(access, units, access.vectors, guards)

    _with_units(context, access, array, loads, run)


def _ragged(context: Context, access: TileAccess, array: SSAValue, loads: bool, emit: Emit) -> None:
    guard: Scalar = True if loads else access.owner()

    def run(units: SSAValue) -> None:
        if loads:
            context.fill(units, 0)
        _predicated(context, access, units, guard, emit)

    _with_units(context, access, array, loads, run)


def _in_vectors(
    context: Context, access: TileAccess, each: TileAccess, array: SSAValue, loads: bool, emit: Emit
) -> None:
    """Where memory is all that a kernel waits for, tiles at an edge keep the vectors that lie in
    the tensor; the elements of those that the edge cuts go one by one, as `each` has them.
    """
    builder = context.builder
    guard: Scalar = True if loads else access.owner()

    def run(units: SSAValue) -> None:
        if loads:
            context.fill(units, 0)
        _predicated(context, access, units, guard, emit)
        parts = units
        if access.unit > 1:
            parts = context.registers("b16", units.type.count * access.unit)  # type: ignore[union-attr]

        def cut() -> None:
            if not (loads and _cut_of_row(context, access, units)):
                _cut(context, access, each, units, parts, loads, guard, emit)

        context.when(builder.pure("not.pred", access.keeps_vectors()), cut)

    _with_units(context, access, array, loads, run)


def _cut_of_row(context: Context, access: TileAccess, units: SSAValue) -> bool:
    """Load the elements of the one vector that the edge cuts where a thread has a single row,
    without a branch, so that the assembler may load each vector right before it is used; False
    where a thread has more.
    """
    builder, vectors = context.builder, access.vectors
    width = max(len(vector.values) for vector in vectors)
    modes = [
        mode
        for mode in access.bounded
        if any(first < last for first, last in (access.span(each, mode) for each in vectors))
    ]
    others = [mode for mode in access.bounded if mode not in modes]
    if len(modes) != 1 or any(len(each.values) != width for each in vectors):
        return False
    (mode,) = modes
    bound = access.view.bound(mode)
    rows = {tuple(access.span(each, other) for other in others) for each in vectors}
    spans = [access.span(each, mode) for each in vectors]
    addresses = access.addresses([each.offset for each in vectors])
    bases = {each.base for each in addresses}
    if bound.floor is not None or access.view.space != "gmem" or len(bases) != 1:
        return False
    if len(rows) != 1 or len(set(spans)) != len(vectors):
        return False
    exists = builder.both(
        access.view.guard,
        *(access.holds(other, *span) for other, span in zip(others, *rows, strict=True)),
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
    cls = array_class(units) if access.unit == 1 else "b16"
    parts = context.registers(cls, count)
    context.foreach(count, [], [(parts, range(count))], lambda args: [0])
    (base,) = bases
    first, table = context.table_of(
        [builder.pure("add.s64", base, builder.widen(at))] * count, "b64"
    )
    guards = [builder.pure("setp.gt.s32", left, i) for i in range(count)]
    predicates, predicate = context.guards(guards)
    modifiers = f"global.b{access.view.bits}"
    immediates = [i * size for i in range(count)]
    builder.emit(
        ptx.LdOp(
            modifiers, parts, first, table, immediates, list(range(count)), predicates, predicate
        )
    )
    merged = parts
    if access.unit > 1:
        merged = context.registers(array_class(units), width)
        merge_units(context, parts, merged)
    for vector, cut in zip(vectors, cuts, strict=True):
        targets = [v // access.unit for v in vector.values]

        def chosen(args: list[SSAValue], cut: Scalar = cut) -> list[Scalar]:
            return [builder.pure(f"selp.{array_class(units)}", args[0], args[1], cut)]

        sources = [(merged, range(width)), (units, targets)]
        context.foreach(width, sources, [(units, targets)], chosen)
    return True


def _cut(
    context: Context,
    access: TileAccess,
    each: TileAccess,
    units: SSAValue,
    parts: SSAValue,
    loads: bool,
    guard: Scalar,
    emit: Emit,
) -> None:
    """The elements in the tensor of vectors that its edges cut, by way of the registers `parts`."""
    builder = context.builder
    single = {vector.values[0]: vector for vector in each.vectors}
    cut: dict[tuple[int, tuple[int, int]], list[Vector]] = {}
    for vector in access.vectors:
        for mode in access.bounded:
            span = access.span(vector, mode)
            if span[0] < span[1]:
                cut.setdefault((mode, span), []).append(vector)
    for (mode, span), vectors in cut.items():
        values = [v + i for vector in vectors for v in vector.values for i in range(access.unit)]
        registers = [v // access.unit for vector in vectors for v in vector.values]

        def one(values: list[int] = values, registers: list[int] = registers) -> None:
            if access.unit > 1 and loads:
                context.foreach(len(values), [], [(parts, values)], lambda args: [0])
            if access.unit > 1 and not loads:
                split_units(context, units, parts, registers)
            _predicated(context, each, parts, guard, emit, [single[value] for value in values])
            if access.unit > 1 and loads:
                merge_units(context, parts, units, registers=registers)

        context.when(
            builder.both(
                access.touches(mode, *span), builder.pure("not.pred", access.holds(mode, *span))
            ),
            one,
        )


def _move(
    context: Context,
    kind: type,
    access: TileAccess,
    units: SSAValue,
    vectors: Sequence[Vector],
    guards: Sequence[Scalar],
) -> None:
    """Plain loads or stores. Where memory is all that a kernel waits for, loads of small parts of
    lines ask L2 for what other lanes load beside them.
    """
    hint = ""
    if kind is ptx.LdOp and context.is_streaming and access.leaves_lines:
        hint = _PREFETCH if target(context.arch).number >= _PREFETCH_TARGET else ""
    _memory_op(context, kind, None, access, units, vectors, guards, hint)


def _predicated(
    context: Context,
    access: TileAccess,
    units: SSAValue,
    guard: Scalar,
    emit: Emit,
    vectors: Sequence[Vector] | None = None,
) -> None:
    """Accesses, all or some, with a predicate for each row and column that may be outside."""
    builder = context.builder
    vectors = access.vectors if vectors is None else vectors
    guard = builder.both(guard, access.view.guard)
    where = {mode: [access.span(vector, mode) for vector in vectors] for mode in access.bounded}
    together = len(set(zip(*where.values(), strict=True)))
    if len(where) <= 1 or together <= _MAX_PREDICATES:
        guards = [
            builder.both(
                access.masked(vector, guard),
                *(access.holds(mode, *at[i]) for mode, at in where.items()),
            )
            for i, vector in enumerate(vectors)
        ]
        emit(access, units, vectors, guards)
        return
    counts = {mode: len(set(at)) for mode, at in where.items()}
    row = min(where, key=counts.__getitem__)
    if context.is_streaming:
        # The addresses of a branch then differ by constants.
        strides = access.view.leaf_strides
        steps = [mode for mode in where if isinstance(strides[access.leaf_of(mode)], DynamicStride)]
        if len(steps) == 1 and all(
            counts[mode] <= _MAX_PREDICATES for mode in where if mode not in steps
        ):
            (row,) = steps
    others = [mode for mode in where if mode != row]
    columns = [
        builder.both(*(access.holds(mode, *where[mode][i]) for mode in others))
        for i in range(len(vectors))
    ]
    access.addresses(_shared(context, vectors))
    for span in sorted(set(where[row])):
        chosen = [i for i, at in enumerate(where[row]) if at == span]

        def one(chosen: list[int] = chosen) -> None:
            guards = [access.masked(vectors[i], columns[i]) for i in chosen]
            emit(access, units, [vectors[i] for i in chosen], guards)

        context.when(builder.both(guard, access.holds(row, *span)), one)


def _shared(context: Context, vectors: Sequence[Vector]) -> list[Offset]:
    """Of which vectors addresses are computed before a branch. Where memory is all that a kernel
    waits for, CTAs count more than instructions: each branch steps from the first address itself,
    so that no register holds an address across it.
    """
    return [vector.offset for vector in (vectors[:1] if context.is_streaming else vectors)]


def _with_units(
    context: Context,
    access: TileAccess,
    array: SSAValue,
    loads: bool,
    run: Callable[[SSAValue], None],
) -> None:
    """Run on an array with one register for each unit of the access; `array` packs more."""
    parts = access.pack // access.unit
    if parts == 1:
        run(array)
        return
    count = array.type.count  # type: ignore[union-attr]
    units = context.registers("b16", count * parts)
    if loads:
        run(units)
        merge_units(context, units, array, len(access.offsets) // access.unit)
    else:
        split_units(context, array, units)
        run(units)


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


def _memory_op(
    context: Context,
    kind: type,
    around: tuple[str, str] | None,
    access: TileAccess,
    units: SSAValue,
    vectors: Sequence[Vector],
    guards: Sequence[Scalar],
    hint: str = "",
) -> None:
    """One op for each vector length, which its modifiers have `around` them; those of plain loads
    and stores where these are not given.
    """
    # Loads and stores move plain bits, whatever the class of the registers.
    suffix = f"b{access.unit * access.view.bits}"
    space = "global" if access.view.space == "gmem" else "shared"
    addresses = access.addresses([vector.offset for vector in vectors])
    for width in sorted({len(vector.values) for vector in vectors}, reverse=True):
        chosen = [i for i, vector in enumerate(vectors) if len(vector.values) == width]
        vector_part = f".v{width}" if width > 1 else ""
        if around is None:
            modifiers = f"{space}{hint}{vector_part}.{suffix}"
        else:
            modifiers = f"{around[0]}v{width}.{around[1]}" if width > 1 else "".join(around)
        bases, base = context.table_of([addresses[i].base for i in chosen], "b64")
        predicates, predicate = context.guards([guards[i] for i in chosen])
        context.builder.emit(
            kind(
                modifiers,
                units,
                bases,
                base,
                [addresses[i].immediate for i in chosen],
                [v // access.unit for i in chosen for v in vectors[i].values],
                predicates,
                predicate,
            )
        )
