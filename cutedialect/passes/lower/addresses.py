"""Addresses of tile elements: one base register for each run of accesses that differ by constants.

Global: 64-bit base from pointer, tile origin, thread part and run-time strides; what a loop changes
is added last. Shared: 32-bit; under a swizzle an access is (base ^ constant) + constant wherever
brute force over the thread parts shows that this is exact, else it has its own swizzled base.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd
from operator import or_

from xdsl.ir import SSAValue

from cutedialect.dialects import ptx
from cutedialect.layout import Swizzle
from cutedialect.passes.analysis.coordinates import Digit, subset_sums

from .context import Context
from .scalar_builder import Scalar, ScalarBuilder
from .views import DynamicStride, Stride, View


@dataclass(frozen=True, order=True)
class Offset:
    """Element offset of a value in a tile: `static` plus `dynamic[i]` times run-time stride i."""

    dynamic: tuple[int, ...]
    static: int


@dataclass(frozen=True)
class Address:
    """`base + immediate` bytes."""

    base: Scalar
    immediate: int


ByteDigit = tuple[int, int, int]
"""`(tid / divisor) % extent` times `weight`: what a digit of the thread adds to an address."""


def value_offsets(view: View, coords: Sequence[tuple[int, ...]]) -> list[Offset]:
    """Offsets of leaf coordinates (one entry for each leaf of the view)."""
    strides = view.leaf_strides
    static = [0 if isinstance(stride, DynamicStride) else stride for stride in strides]
    dynamic = [i for i, stride in enumerate(strides) if isinstance(stride, DynamicStride)]
    result = []
    for coord in coords:
        at = 0
        for step, stride in zip(coord, static, strict=True):
            at += step * stride
        result.append(Offset(tuple([coord[i] for i in dynamic]), at))
    return result


def granularity(view: View, threads: Sequence[Digit], coords: Sequence[tuple[int, ...]]) -> int:
    """Bytes that divide every thread's address of value 0 and all run-time value offsets."""
    result = view.alignment
    size = view.element_bytes
    for term in view.terms:
        result = gcd(result, term.divisor * size)
    for leaf, stride in enumerate(view.leaf_strides):
        divisor = stride.divisor if isinstance(stride, DynamicStride) else stride
        for digit in threads:
            result = gcd(result, digit.steps[leaf] * divisor * size)
        if isinstance(stride, DynamicStride) and any(coord[leaf] for coord in coords):
            result = gcd(result, divisor * size)
    return result


def digit_value(builder: ScalarBuilder, digit: Digit, threads: int) -> Scalar:
    """`(tid / divisor) % extent`, for a block of so many threads."""
    value: Scalar = builder.thread_index()
    value = builder.pure("div.u32", value, digit.divisor)
    if digit.divisor * digit.extent < threads:
        value = builder.pure("rem.u32", value, digit.extent)
    return builder.assume_nonnegative(value)


def weighted_sum(builder: ScalarBuilder, digits: Sequence[ByteDigit], threads: int) -> Scalar:
    """Sum of weight * ((tid / divisor) % extent) over (divisor, extent, weight), few ops."""
    merged: list[ByteDigit] = []
    for divisor, extent, weight in sorted(digits):
        if extent == 1 or weight == 0:
            continue
        if merged:
            before, size, factor = merged[-1]
            if before * size == divisor and factor * size == weight:
                merged[-1] = (before, size * extent, factor)
                continue
        merged.append((divisor, extent, weight))
    return builder.total(
        builder.pure(
            "mul.lo.s32", digit_value(builder, Digit(divisor, extent, ()), threads), weight
        )
        for divisor, extent, weight in merged
    )


def global_addresses(
    builder: ScalarBuilder,
    view: View,
    threads: Sequence[Digit],
    offsets: Sequence[Offset],
    thread_count: int,
) -> list[Address]:
    """Address of each offset for this thread."""
    size = view.element_bytes
    strides = view.leaf_strides
    terms: list[Scalar] = [view.root]
    immediate = 0
    for term in view.terms:
        if isinstance(term.coord, int) and isinstance(term.stride, int):
            immediate += term.coord * term.step * term.stride * size
        else:
            terms.append(distance(builder, term.coord, term.stride, size * term.step))
    static = weighted_sum(builder, byte_digits(view, threads), thread_count)
    terms.append(builder.widen(static))
    dynamic = []
    for leaf, stride in enumerate(strides):
        if isinstance(stride, DynamicStride):
            scaled = builder.pure("mul.lo.s64", stride.value, size)
            coord = thread_coord(builder, threads, leaf, thread_count)
            terms.append(builder.product64(coord, scaled))
            dynamic.append(scaled)
    bases: dict[tuple[int, ...], Scalar | None] = {}
    result = []
    for offset in offsets:
        base = bases.get(offset.dynamic)
        if base is None:
            base = bases[offset.dynamic] = _step_from(builder, bases, offset.dynamic, dynamic)
        if base is None:
            extra = [
                builder.pure("mul.lo.s64", scaled, step)
                for scaled, step in zip(dynamic, offset.dynamic, strict=True)
                if step
            ]
            base = bases[offset.dynamic] = builder.total([*terms, *extra], "s64")
        result.append(Address(base, offset.static * size + immediate))
    return [_near(builder, address) for address in result]


def distance(builder: ScalarBuilder, steps: Scalar, stride: Stride, size: int) -> Scalar:
    """Bytes (b64) of so many steps along a stride of elements of `size` bytes."""
    if isinstance(stride, DynamicStride):
        return builder.product64(steps, builder.pure("mul.lo.s64", stride.value, size))
    return builder.product64(steps, stride * size)


def _step_from(
    builder: ScalarBuilder,
    bases: dict[tuple[int, ...], Scalar | None],
    wanted: tuple[int, ...],
    scaled: Sequence[Scalar],
) -> Scalar | None:
    """The base one step further along one stride, from one that is known, or None.

    In a loop that moves the base, a chain needs two live registers where a sum for each offset
    needs a pair for every offset.
    """
    for known, base in reversed(bases.items()):
        apart = [(i, b - a) for i, (a, b) in enumerate(zip(known, wanted, strict=True)) if a != b]
        if base is not None and len(apart) == 1 and apart[0][1] > 0:
            leaf, distance = apart[0]
            return builder.pure("add.s64", base, builder.pure("mul.lo.s64", scaled[leaf], distance))
    return None


def _near(builder: ScalarBuilder, address: Address) -> Address:
    """The same address with an immediate that every instruction can encode (24 bits)."""
    low = address.immediate & 0x7FFFF
    high = address.immediate - low
    if high == 0:
        return address
    return Address(builder.pure("add.s64", address.base, high), low)


def thread_coord(
    builder: ScalarBuilder, threads: Sequence[Digit], leaf: int, thread_count: int
) -> Scalar:
    """This thread's coordinate along one leaf (or mode) of the tile."""
    coord = weighted_sum(
        builder, [(d.divisor, d.extent, d.steps[leaf]) for d in threads], thread_count
    )
    return builder.assume_nonnegative(coord)


def byte_digits(view: View, threads: Sequence[Digit]) -> list[ByteDigit]:
    """What digits of the thread add to addresses along static strides."""
    static = [
        (leaf, stride * view.element_bytes)
        for leaf, stride in enumerate(view.leaf_strides)
        if not isinstance(stride, DynamicStride)
    ]
    return [
        (digit.divisor, digit.extent, sum(digit.steps[leaf] * step for leaf, step in static))
        for digit in threads
    ]


def shared_addresses(
    builder: ScalarBuilder,
    view: View,
    digits: Sequence[ByteDigit],
    constants: Sequence[int],
    thread_count: int,
    turned: tuple[Scalar, int] | None = None,
) -> list[Address]:
    """Address of each byte constant inside the view for this thread.

    `digits` are the thread part in bytes; the swizzle acts on the sum with all offsets, of which
    run-time ones are multiples of its repeat. `turned`, in swizzled memory, says which bits of the
    places of a thread are flipped, and which may be: those that neither `digits` nor the swizzle
    touch.
    """
    assert isinstance(view.root, int)
    swizzle = view.swizzle
    repeat = 1 if swizzle is None else swizzle.repeat
    running, fixed = _terms(builder, view, repeat)
    thread = weighted_sum(builder, digits, thread_count)

    def finish(base: Scalar, immediate: int) -> Address:
        return Address(builder.total([builder.smem_base(), base, *running]), immediate)

    if swizzle is None or swizzle.bits == 0:
        return [finish(thread, view.root + fixed + at) for at in constants]
    sums = subset_sums([(extent, weight) for _, extent, weight in digits], repeat)
    moved = {swizzle(at) for at in sums}
    used, reach = (reduce(or_, places) for places in (sums, moved))
    is_fixed = moved == sums and all(swizzle(at) == at for at in sums)
    base = thread if is_fixed else _swizzle(builder, swizzle, thread)
    if turned is not None:
        base = builder.pure("xor.b32", base, turned[0])
        reach |= turned[1]
    result = []
    for constant in constants:
        total = constant + fixed
        low = total % repeat
        high = total - low + view.root
        if used & low:
            own = _swizzle(builder, swizzle, builder.pure("add.s32", thread, low))
            result.append(finish(own, high))
            continue
        pattern = swizzle(low)
        with builder.near():
            own = finish(builder.pure("xor.b32", base, pattern & reach), high + (pattern & ~reach))
        result.append(own)
    return result


def _terms(builder: ScalarBuilder, view: View, repeat: int) -> tuple[list[Scalar], int]:
    """Bytes from the start of an allocation to a tile in it: run-time ones and a constant."""
    fixed = 0
    running: list[Scalar] = []
    for term in view.terms:
        scale = term.step * int(term.stride) * view.element_bytes  # type: ignore[arg-type]
        if isinstance(term.coord, int):
            fixed += term.coord * scale
        elif scale % repeat:
            raise ValueError(
                f"expected run-time offsets that are multiples of {repeat} bytes under "
                f"{view.swizzle}, got {scale}"
            )
        else:
            running.append(builder.pure("mul.lo.s32", term.coord, scale))
    return running, fixed


def tile_address(builder: ScalarBuilder, view: View) -> tuple[Scalar, int]:
    """Where a tile in shared memory starts: register and byte offset."""
    assert isinstance(view.root, int)
    base = builder.smem_base()
    running, fixed = _terms(builder, view, 1)
    return builder.total([base, *running]), view.root + fixed


def xor_addresses(
    builder: ScalarBuilder,
    view: View,
    digits: Sequence[ByteDigit],
    constants: Sequence[int],
    thread_count: int,
) -> list[Address]:
    """The address of the start of a swizzled view with each constant as an exclusive or: a sum
    where the two do not `meet`; else it takes bits of the constant away from threads that have
    them. Few registers stay taken.
    """
    swizzle = view.swizzle
    assert swizzle is not None
    start = shared_addresses(builder, view, digits, [0], thread_count)[0]
    found: list[Address] = []
    for at in constants:
        low = at % swizzle.repeat
        base = builder.pure("xor.b32", start.base, swizzle(low))
        found.append(Address(base, start.immediate + at - low))
    return found


def meet(digits: Sequence[ByteDigit], constants: Sequence[int], repeat: int) -> bool:
    """Whether a constant has bits below `repeat` that what digits of the thread add up to also has,
    for any thread: of three warps 256 bytes apart the second one has the bit that the third lacks.
    """
    sums = subset_sums([(extent, weight) for _, extent, weight in digits], repeat)
    taken = reduce(or_, sums, 0)
    return any(taken & at % repeat for at in constants)


def lane_offset(digits: Sequence[ByteDigit], lane: int) -> int:
    """What digits add to the address of a thread."""
    return sum(lane // divisor % extent * weight for divisor, extent, weight in digits)


def _swizzle(builder: ScalarBuilder, swizzle: Swizzle, address: Scalar) -> Scalar:
    mask = ((1 << swizzle.bits) - 1) << swizzle.base
    if swizzle.shift >= 0:
        moved = builder.pure("shr.u32", address, swizzle.shift)
        moved = builder.pure("and.b32", moved, mask)
    else:
        moved = builder.pure("and.b32", address, mask)
        moved = builder.pure("shl.b32", moved, -swizzle.shift)
    return builder.pure("xor.b32", address, moved)


def memory_op(
    context: Context,
    kind: type[ptx.TableOp],
    modifiers: str,
    array: SSAValue,
    addresses: Sequence[Address],
    registers: Sequence[int] | None = None,
    guards: Sequence[Scalar] = (),
) -> None:
    """An instruction for each address, with its guard, on the next registers of an array, of which
    there is an order if not all are used as they are.
    """
    if registers is None:
        registers = range(array.type.count)  # type: ignore[union-attr]
    cls = "b64" if "global" in modifiers else "b32"
    bases, base = context.table_of([each.base for each in addresses], cls)
    predicates, predicate = context.guards(guards)
    offsets = [each.immediate for each in addresses]
    context.builder.emit(
        kind(modifiers, array, bases, base, offsets, registers, predicates, predicate)
    )


def start_copies(
    context: Context,
    cache: str,
    size: int,
    target: Sequence[Address],
    source: Sequence[Address],
    sizes: Sequence[Scalar],
    guards: Sequence[Scalar],
) -> None:
    """A `cp.async` of `size` bytes for each address, of which the source has so many (`sizes`)."""
    from_, source_base = context.table_of([each.base for each in source], "b64")
    to, target_base = context.table_of([each.base for each in target], "b32")
    valid, index = [], None
    if any(each != size for each in sizes):
        valid, index = context.table_of(sizes, "b32")
    predicates, predicate = context.guards(guards)
    places = (
        list(zip(base, [each.immediate for each in side], strict=True))
        for base, side in ((target_base, target), (source_base, source))
    )
    modifiers = f"{cache}.shared.global"
    into, out = places
    context.builder.emit(
        ptx.CpAsyncOp(modifiers, size, to, into, from_, out, valid, index, predicates, predicate)
    )
