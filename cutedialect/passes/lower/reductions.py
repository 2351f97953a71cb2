"""Reductions along one mode of a register tile: over a thread's own values, then over the lanes of
its warp by butterfly shuffles, then over warps through shared memory; every thread ends with the
result. A local reduction ends with the first of these, and may have a place in its result for each
thread. Packed sums begin with additions of whole registers, two 16-bit floats at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod

from xdsl.ir import Block, Operation, SSAValue

from cutedialect.atoms import WARP_SIZE
from cutedialect.dialects import ptx
from cutedialect.dialects.cute import FragmentType, ReduceOp, YieldOp
from cutedialect.passes.analysis.coordinates import Digit, ThreadValue, split_digits, thread_value
from cutedialect.passes.analysis.lines import scratch_across_warps

from .addresses import Address, digit_value, memory_op, thread_coord, weighted_sum
from .context import Context, array_class, fail, number_name
from .elementwise import Fragment, from_elements
from .narrow_floats import from_f32, to_f32
from .scalar_builder import Scalar, ScalarBuilder, array_type
from .scalars import Values, extreme, lower_scalar

Combine = Callable[[Scalar, Scalar], Scalar]

_ALL_LANES = -1
# Operations side by side that hide what each takes, and the shortest rows worth cutting.
_MOST_CHAINS = 8
_LEAST_CHAIN = 8
# Rows that pay the pairs: fewer elements are as soon added one by one, in fewer registers.
_LEAST_PAIRED = 64


def lower_reduce(
    context: Context, op: ReduceOp, source: Fragment, outer: Values | None = None
) -> Fragment:
    """Reduce along `op.mode`; 16-bit floats are combined in f32 and rounded once. A fold's body may
    use the scalars `outer`.
    """
    builder, type_, mode = context.builder, op.result.type, op.mode.value.data
    name = number_name(source.type.element)
    half = name in ("f16", "bf16")
    arithmetic = "f32" if half else name
    if arithmetic not in ("f32", "f64", "s32", "s64", "u32", "u64"):
        raise ValueError(f"expected floats, or integers of 32 or 64 bits, got {name}")
    if op.body is not None:
        combine = _folder(context, op, op.body.block, outer)
    else:
        combine = combiner(builder, op.kind.data, arithmetic)
    digits = split_digits(source.layout.threads, (32,))
    if any(digit.steps[mode] and sum(map(bool, digit.steps)) > 1 for digit in digits):
        raise ValueError(f"expected thread modes along one tile mode, got {source.layout.threads}")
    along = prod(digit.extent for digit in digits if digit.steps[mode])
    rows = [*map(list, _rows(source.type, type_, mode, along))]
    values = source.array
    if op.packed is not None and builder.has(f"add.rn.{name}x2"):
        values, rows = _added_in_pairs(context, values, rows, op.packed.value.data, name)
    if half:
        values = widened(context, values, name)
    present = None if op.folded == op.length else _Presence(context, source.layout, mode, op.folded)
    if present is not None:
        accumulator = _of_present(context, values, rows, combine, present)
    elif op.body is None and _takes_pairs(context, values, rows):
        accumulator = _within_threads_by_pairs(context, values, rows, op.kind.data)
    else:
        accumulator = _within_threads(context, values, rows, combine)
    if op.local is None:
        _, lanes, _ = _kinds(digits, mode)
        for digit in lanes:
            _across_lanes(context, accumulator, combine, digit, present)
        _across_warps(context, accumulator, combine, digits, mode, op.folded)
    if half and not op.is_wide:
        narrow = context.mapped(accumulator, "b16", lambda x: from_f32(builder, x, name))
        return from_elements(context, narrow, type_)
    return Fragment(type_, accumulator)


def _across_lanes(
    context: Context,
    accumulator: SSAValue,
    combine: Combine,
    digit: Digit,
    present: _Presence | None,
) -> None:
    """Combine what lanes that differ in a digit hold of one row."""
    if digit.extent & (digit.extent - 1):
        raise ValueError(f"expected a power of two of lanes along a row, got {digit}")
    for bit in range(digit.extent.bit_length() - 1):
        _shuffle(context, accumulator, combine, digit.divisor << bit, present)


class _Presence:
    """Which elements of a padded tile there are: those whose coordinate along a mode, the sum of
    its thread's and its value's, is below an extent.
    """

    def __init__(self, context: Context, layout: ThreadValue, mode: int, extent: int) -> None:
        builder = context.builder
        self.of_values = [coord[mode] for coord in layout.value_coords()]
        # The coordinates of values below this are there in all threads.
        self.certain = extent - max(coord[mode] for coord in layout.thread_coords())
        thread = thread_coord(builder, layout.threads, mode, context.threads)
        self.left = builder.pure("sub.s32", extent, thread)
        # Whether a thread, or a lane that it has met, has any element; None where each has.
        self.some: Scalar | None = None
        if self.certain <= 0:
            self.some = builder.pure("selp.b32", 1, 0, builder.pure("setp.gt.s32", self.left, 0))

    def meet(self, context: Context, offset: int) -> tuple[Scalar, Scalar]:
        """Whether a thread has an element, and whether the lane has that it meets."""
        builder, mine = context.builder, self.some
        assert mine is not None
        other = _from_lane(context, builder.value(mine, "b32"), offset)
        self.some = builder.pure("or.b32", mine, other)
        return builder.pure("setp.ne.s32", mine, 0), builder.pure("setp.ne.s32", other, 0)


def _of_present(
    context: Context, values: SSAValue, rows: list[list[int]], combine: Combine, present: _Presence
) -> SSAValue:
    """One register for each row of a thread, of the elements that there are: those that all threads
    have first, the others with a look at each. A thread without any has what it is given.
    """
    builder, cls = context.builder, array_class(values)
    ordered = [sorted(row, key=present.of_values.__getitem__) for row in rows]
    count = sum(present.of_values[v] < present.certain for v in ordered[0]) or 1
    accumulator = _within_threads(context, values, [row[:count] for row in ordered], combine)
    rest = [(u, row[at]) for at in range(count, len(ordered[0])) for u, row in enumerate(ordered)]
    if not rest:
        return accumulator

    def step(args: list[SSAValue]) -> list[Scalar]:
        is_there = builder.pure("setp.lt.s32", args[2], present.left)
        return [builder.pure(f"selp.{cls}", combine(args[0], args[1]), args[0], is_there)]

    target = accumulator, [u for u, _ in rest]
    sources = [target, (values, [v for _, v in rest])]
    coords = [present.of_values[v] for _, v in rest]
    context.foreach(len(rest), sources, [target], step, [coords])
    return accumulator


@lru_cache(maxsize=256)
def _rows(
    source: FragmentType, result: FragmentType, mode: int, along: int
) -> list[tuple[int, ...]]:
    """For each value of a result, the values of its source that a thread reduces to it. The threads
    of the result lie as those of the source do but for the mode, along which there are so many; it
    may have a place for each of them.
    """
    layout, result_layout = (thread_value(each.bound, each.shape) for each in (source, result))

    # A result that leaves the mode out has the place 0 in it.
    rest = (0,) * (len(source.shape) - len(result.shape))

    def project(coord: tuple[int, ...]) -> tuple[int, ...]:
        return (*coord[:mode], 0, *coord[mode + 1 :])

    places = [coord + rest for coord in result_layout.thread_coords()]
    if [project(c) for c in layout.thread_coords()] != [project(c) for c in places]:
        raise ValueError(
            f"expected the threads of the result {result} to lie as those of {source} "
            f"without mode {mode}"
        )
    parts = 1 if rest else result.shape[mode]
    if parts > 1 and (parts != along or {c[mode] for c in places} != {*range(parts)}):
        raise ValueError(
            f"expected a result with a place for each of {along} threads, got {result}"
        )
    members: dict[tuple[int, ...], list[int]] = {}
    for v, coord in enumerate(layout.value_coords()):
        members.setdefault(project(coord), []).append(v)
    results = [coord + rest for coord in result_layout.value_coords()]
    if set(results) != set(members):
        raise ValueError(f"expected the result {result} to hold the rows of {source}")
    return [tuple(members[coord]) for coord in results]


def _within_threads(
    context: Context, values: SSAValue, rows: list[list[int]], combine: Combine
) -> SSAValue:
    """One register for each row of a thread. Few long rows are combined in several parts side by
    side, since one operation on a sum has to wait for the one before.
    """
    cls, length, count = array_class(values), len(rows[0]), len(rows)
    ways = max(1, min(_MOST_CHAINS // count, length // _LEAST_CHAIN))
    ways = 1 << (ways.bit_length() - 1)
    parts = context.registers(cls, count * ways)
    first = [row[w] for w in range(ways) for row in rows]
    context.move(values, first, parts, range(count * ways))
    steps = [
        (u + count * (i % ways), row[i]) for i in range(ways, length) for u, row in enumerate(rows)
    ]
    if steps:
        sums = [u for u, _ in steps]
        _combine(context, combine, parts, sums, values, [v for _, v in steps])
    if ways == 1:
        return parts
    while ways > 1:
        ways //= 2
        half = range(count * ways)
        _combine(context, combine, parts, half, parts, [u + count * ways for u in half])
    accumulator = context.registers(cls, count)
    context.move(parts, range(count), accumulator, range(count))
    return accumulator


def _takes_pairs(context: Context, values: SSAValue, rows: Sequence[Sequence[int]]) -> bool:
    """Whether the target has fewer instructions for two numbers of a row than for one and one."""
    pairs_f32 = context.builder.pairs_f32 and array_class(values) == "f32"
    return pairs_f32 and all(map(_is_paired, rows))


def _is_paired(row: Sequence[int]) -> bool:
    """Whether a row is of registers side by side, two by two, and long enough for pairs."""
    pairs = [*zip(row[::2], row[1::2], strict=False)]
    are_neighbors = all(low % 2 == 0 and high == low + 1 for low, high in pairs)
    return are_neighbors and len(row) % 2 == 0 and len(row) >= _LEAST_PAIRED


def _within_threads_by_pairs(
    context: Context, values: SSAValue, rows: list[list[int]], kind: str
) -> SSAValue:
    """The same of f32 where one instruction adds two pairs, or finds the largest of three (PTX ISA
    9.7.3): each step takes two neighbors of a row.
    """
    count, length = len(rows), len(rows[0])
    # An even number of parts: sums have two side by side.
    ways = max(2, min(_MOST_CHAINS // count, length // (2 * _LEAST_CHAIN)))
    ways = 1 << (ways.bit_length() - 1)
    parts = context.registers("f32", count * ways)
    firsts = [row[way] for row in rows for way in range(ways)]
    context.move(values, firsts, parts, range(count * ways))
    steps = [(u, at) for at in range(ways, length, 2) for u in range(count)]
    neighbors = [rows[u][at] for u, at in steps]
    first = [ways * u for u in range(count)]
    if kind in ("add", "mul"):
        _fold_pairs(
            context, kind, parts, [first[u] + at % ways for u, at in steps], values, neighbors
        )
        while ways > 2:
            ways //= 2
            places = [at + way for at in first for way in range(0, ways, 2)]
            _fold_pairs(context, kind, parts, places, parts, [at + ways for at in places])
    else:
        places = [first[u] + (at - ways) // 2 % ways for u, at in steps]
        _fold_three(context, kind, parts, places, values, neighbors)
        for way in range(1, ways - 1, 2):
            _fold_three(context, kind, parts, first, parts, [at + way for at in first])
    others = [at + ways - 1 for at in first]
    _combine(context, combiner(context.builder, kind, "f32"), parts, first, parts, others)
    accumulator = context.registers("f32", count)
    context.move(parts, first, accumulator, range(count))
    return accumulator


def _fold_pairs(
    context: Context,
    kind: str,
    parts: SSAValue,
    places: list[int],
    values: SSAValue,
    neighbors: list[int],
) -> None:
    """Add, or multiply, two neighbors to two parts side by side, in order."""
    builder = context.builder

    def body(args: list[SSAValue]) -> list[Scalar]:
        pairs = builder.paired(*args[:2]), builder.paired(*args[2:])
        return [*builder.halves(builder.register(f"{kind}.rn.f32x2", *pairs))]

    targets = [(parts, [place + half for place in places]) for half in range(2)]
    sources = [(values, [place + half for place in neighbors]) for half in range(2)]
    context.foreach(len(places), [*targets, *sources], targets, body)


def _fold_three(
    context: Context,
    kind: str,
    parts: SSAValue,
    places: list[int],
    values: SSAValue,
    neighbors: list[int],
) -> None:
    """Let parts be the largest, or smallest, of them and of two neighbors, in order."""
    targets = [(parts, places)]
    sources = [(values, [place + half for place in neighbors]) for half in range(2)]
    mnemonic = f"{kind}.NaN.f32"
    context.foreach(
        len(places),
        [*targets, *sources],
        targets,
        lambda args: [context.builder.register(mnemonic, *args)],
    )


def _combine(
    context: Context,
    combine: Combine,
    sums: SSAValue,
    places: Sequence[int],
    values: SSAValue,
    others: Sequence[int],
) -> None:
    """Combine registers of an array, in order, with as many of another."""
    targets = [(sums, places)]
    sources = [*targets, (values, others)]
    context.foreach(len(places), sources, targets, lambda args: [combine(args[0], args[1])])


def _added_in_pairs(
    context: Context, array: SSAValue, rows: list[list[int]], most: int, name: str
) -> tuple[SSAValue, list[list[int]]]:
    """Sums of up to `most` registers of each row, both halves at once, and which halves are those
    of a row. Registers that hold elements of two rows stay as they are.
    """
    registers = [[v // 2 for v in row[::2]] for row in rows]
    if rows != [[2 * r + half for r in row for half in range(2)] for row in registers]:
        return array, rows
    # What comes last is in the last sum alone: few instructions wait for it.
    starts = [range(0, len(row), most) for row in registers]
    groups = [
        row[start : start + most]
        for row, begins in zip(registers, starts, strict=True)
        for start in begins
    ]
    while any(len(group) > 1 for group in groups):
        array, groups = _added_once(context, array, groups, f"add.rn.{name}x2")
    ends = iter(place for group in groups for place in group)
    sums = [[next(ends) for _ in begins] for begins in starts]
    return array, [[2 * place + half for place in row for half in range(2)] for row in sums]


def _added_once(
    context: Context, array: SSAValue, groups: list[list[int]], mnemonic: str
) -> tuple[SSAValue, list[list[int]]]:
    """The sums of neighbors in each group of registers, and which of these are a group's."""
    pairs = [group[at : at + 2] for group in groups for at in range(0, len(group), 2)]
    result = context.registers("b32", len(pairs))
    both = [place for place, pair in enumerate(pairs) if len(pair) == 2]
    alone = [place for place, pair in enumerate(pairs) if len(pair) == 1]
    context.foreach(
        len(both),
        [(array, [pairs[place][half] for place in both]) for half in range(2)],
        [(result, both)],
        lambda args: [context.builder.pure(mnemonic, *args)],
    )
    if alone:
        context.move(array, [pairs[place][0] for place in alone], result, alone)
    places = iter(range(len(pairs)))
    return result, [[next(places) for _ in group[::2]] for group in groups]


def widened(context: Context, array: SSAValue, name: str) -> SSAValue:
    """The elements of registers with two 16-bit floats each as f32."""
    builder, count = context.builder, array_type(array).count
    wide = context.registers("f32", 2 * count)
    targets = [(wide, range(half, 2 * count, 2)) for half in range(2)]
    context.foreach(
        count,
        [(array, range(count))],
        targets,
        lambda args: [to_f32(builder, half, name) for half in builder.unpack(args[0])],
    )
    return wide


def combiner(builder: ScalarBuilder, kind: str, arithmetic: str) -> Combine:
    """How two values become one; a NaN is kept."""
    if arithmetic in ("f32", "f64") and kind in ("max", "min"):
        return lambda left, right: extreme(builder, kind, arithmetic, left, right)
    is_low = kind == "mul" and not arithmetic.startswith("f")
    if kind in ("add", "mul"):
        arithmetic = arithmetic.replace("u", "s")  # the same for both, and shared with the others
    mnemonic = f"{kind}{'.lo' if is_low else ''}.{arithmetic}"
    return lambda left, right: builder.pure(mnemonic, left, right)


def combined(context: Context, kind: str, parts: Sequence[SSAValue]) -> SSAValue:
    """One register of f32 of those of several arrays of one."""
    accumulator = context.registers("f32", 1)
    context.move(parts[0], [0], accumulator, [0])
    for part in parts[1:]:
        _combine(context, combiner(context.builder, kind, "f32"), accumulator, [0], part, [0])
    return accumulator


def _folder(context: Context, op: ReduceOp, block: Block, outer: Values | None) -> Combine:
    """How the body of a fold makes one of two values."""
    made = called(context, op, block, outer)
    return lambda left, right: made(left, right)[0]


def called(
    context: Context, op: Operation, block: Block, outer: Values | None
) -> Callable[..., list[Scalar]]:
    """What the body of an op yields of elements; it may use the scalars `outer`."""

    def combine(*elements: Scalar) -> list[Scalar]:
        values = dict(outer or {})
        values |= zip(block.args, elements, strict=True)
        for inner in block.ops:
            if isinstance(inner, YieldOp):
                return [values[value] for value in inner.operands]
            context.builder.at(inner)
            if not lower_scalar(context, inner, values):
                raise fail(inner, f"expected arith and math ops in the body of {op.name}")
        raise fail(op, "expected the body to end with cute.yield")

    return combine


def _from_lane(context: Context, value: SSAValue, offset: int) -> SSAValue:
    """What the lane has whose number differs in one bit."""
    builder = context.builder
    operands = (builder.imm(each, "b32") for each in (offset, 31, _ALL_LANES))
    return builder.result(ptx.ShflOp("sync.bfly.b32", value, *operands))


def _shuffle(
    context: Context,
    accumulator: SSAValue,
    combine: Combine,
    offset: int,
    present: _Presence | None = None,
) -> None:
    """Combine with the lane whose number differs in one bit; where one of both has no element, take
    the other's.
    """
    builder, cls = context.builder, array_class(accumulator)
    every = range(array_type(accumulator).count)
    some = None if present is None or present.some is None else present.meet(context, offset)

    def exchanged(value: SSAValue) -> SSAValue:
        if cls in ("b32", "f32"):
            return _from_lane(context, value, offset)
        parts = builder.emit(ptx.UnpackOp(value, 2, "b32")).results
        return builder.result(
            ptx.PackOp([_from_lane(context, part, offset) for part in parts], cls)
        )

    def body(args: list[SSAValue]) -> list[Scalar]:
        mine, other = args[0], exchanged(args[0])
        total = combine(mine, other)
        if some is None:
            return [total]
        has_mine, has_other = some
        alone = builder.pure(f"selp.{cls}", mine, other, has_mine)
        return [builder.pure(f"selp.{cls}", total, alone, builder.both(has_mine, has_other))]

    context.foreach(len(every), [(accumulator, every)], [(accumulator, every)], body)


def _kinds(digits: Sequence[Digit], mode: int) -> tuple[list[Digit], list[Digit], list[Digit]]:
    """Digits of threads whose warps, and whose lanes, are along a mode, and those across it."""
    along = [d for d in digits if d.steps[mode]]
    warps = [d for d in along if d.divisor >= WARP_SIZE]
    return warps, [d for d in along if d.divisor < WARP_SIZE], [d for d in digits if d not in along]


def _spread(context: Context, digits: Sequence[Digit], step: int) -> Scalar:
    """The number of a thread by some of its digits, the first one in steps of a size."""
    terms: list[tuple[int, int, int]] = []
    for digit in digits:
        terms.append((digit.divisor, digit.extent, step))
        step *= digit.extent
    return weighted_sum(context.builder, terms, context.threads)


def _begins(parts: Sequence[Digit], mode: int) -> list[int]:
    """Where along a mode what each part has begins."""
    begins = [0]
    for digit in parts:
        steps = range(0, digit.extent * digit.steps[mode], digit.steps[mode])
        begins = [begin + step for step in steps for begin in begins]
    return begins


def _across_warps(
    context: Context,
    accumulator: SSAValue,
    combine: Combine,
    digits: tuple[Digit, ...],
    mode: int,
    extent: int,
) -> None:
    """Combine what warps hold of one row: [row of the thread][warp part][other threads] in smem.
    Warps whose first lane is behind the extent of the row hold nothing of it.
    """
    parts, lanes, others = _kinds(digits, mode)
    if not parts:
        return
    builder = context.builder
    cls, rows = array_class(accumulator), array_type(accumulator).count
    size = 8 if cls in ("f64", "b64") else 4
    warps = prod(d.extent for d in parts)
    part_bytes = prod(d.extent for d in others) * size
    root, moved = context.scratch_at(scratch_across_warps(digits, mode, rows, size))
    first = builder.total([builder.smem_base(), moved, _spread(context, others, size)])
    mine = builder.total([first, _spread(context, parts, part_bytes)])
    at_zero = [digit_value(builder, digit, context.threads) for digit in lanes]
    lead = builder.both(*(builder.equal(each, 0) for each in at_zero))
    offsets = [root + part * part_bytes for part in range(rows * warps)]
    shared = f"shared.b{8 * size}"
    context.synchronize()
    places = [Address(mine, offset) for offset in offsets[::warps]]
    memory_op(context, ptx.StOp, shared, accumulator, places, range(rows), [lead] * rows)
    context.synchronize()
    found = context.registers(cls, rows * warps)
    places = [Address(first, offset) for offset in offsets]
    memory_op(context, ptx.LdOp, shared, found, places, range(rows * warps))
    context.move(found, range(0, rows * warps, warps), accumulator, range(rows))
    begins = _begins(parts, mode)
    there = [w for w in range(1, warps) if begins[w] < extent]
    order = [(u, u * warps + w) for w in there for u in range(rows)]
    sums = [u for u, _ in order]
    _combine(context, combine, accumulator, sums, found, [place for _, place in order])
