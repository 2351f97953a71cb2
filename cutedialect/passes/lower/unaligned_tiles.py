"""Tiles whose rows begin at any element of global memory, in vectors: a thread loads the aligned 16
bytes that hold the start of its vector, and the 16 behind these, and shifts what it wants out of
both (`shf`, PTX ISA 9.7.8.7).

Nothing outside of the tensor is read. Aligned 16 bytes that lie in it in part, at its two ends, are
loaded element by element by the few threads that want some of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise

from xdsl.ir import SSAValue

from cutedialect.dialects import ptx
from cutedialect.layout import Layout

from .addresses import (
    Address,
    Offset,
    distance,
    global_addresses,
    memory_op,
    start_copies,
    thread_coord,
)
from .context import Context
from .copies import merge_units
from .memory_copies import Whole
from .scalar_builder import Scalar
from .tile_access import TileAccess
from .views import DynamicStride, View

_BYTES = 16
_WORDS = 4
_WORD = 4
_ONES = 0xFFFFFFFF


@dataclass
class UnalignedTile:
    """A tile in global memory as threads have it in vectors, all or some of them."""

    context: Context
    source: View
    tv: Layout
    some: range | None = None
    # Elements of each that threads have, where these are no vectors.
    elements: int | None = None

    @property
    def unit(self) -> int:
        """Elements of a vector."""
        return self.elements or _BYTES // self.source.element_bytes

    @property
    def whole(self) -> Whole:
        """The mode along which vectors lie, and their elements: no part cuts them."""
        return self.contiguous, self.unit

    @cached_property
    def access(self) -> TileAccess:
        return TileAccess(self.context, self.source, self.tv, 1, self.source.element_bytes)

    @cached_property
    def firsts(self) -> list[int]:
        """The first value of each vector."""
        every = range(0, len(self.access.offsets), self.unit)
        return [*every] if self.some is None else [every[number] for number in self.some]

    def parts(self, most: int) -> Iterator[UnalignedTile]:
        """Some vectors after others, where a tile does not fall into equal parts."""
        count = len(self.firsts)
        for first in range(0, count, most):
            yield replace(self, some=range(first, min(count, first + most)))

    @property
    def starts(self) -> list[int]:
        """Where each vector begins in its line, counted from that of the thread's first value."""
        leaf = self.access.leaf_of(self.contiguous)
        return [self.access.coords[first][leaf] for first in self.firsts]

    def columns(self) -> list[Scalar]:
        """Where each vector of this thread begins in its line."""
        access, builder = self.access, self.context.builder
        leaf = access.leaf_of(self.contiguous)
        column = thread_coord(builder, access.layout.threads, leaf, self.context.threads)
        return [builder.pure("add.s32", column, start) for start in self.starts]

    @cached_property
    def contiguous(self) -> int:
        """The mode along which vectors lie."""
        return self.source.leaf_modes[self.source.leaf_strides.index(1)]

    @property
    def begins_in_front(self) -> bool:
        """Whether rows may begin in front of those of the tensor."""
        bound = self.source.bounds[self.contiguous]
        return bound is not None and bound.floor is not None

    def is_in_vectors(self, access: TileAccess) -> bool:
        """Whether all values of a thread lie together in vectors, in the tile or where it is copied
        to, of rows that begin where their tensor does.
        """
        offsets, view = access.offsets, access.view
        if len(offsets) % self.unit:
            return False
        if view.space == "gmem":
            if any(len(mode) != 1 for mode in view.modes) or 1 not in view.leaf_strides:
                return False
            bound = view.bounds[self.contiguous]
            if len(view.modes) != 2 or (bound is not None and bound.floor is not None):
                return False
        elif access.aligned_to < _BYTES:
            return False
        return all(
            access.is_run(range(first, first + self.unit))
            and (view.space == "gmem" or offsets[first].static * view.element_bytes % _BYTES == 0)
            for first in self.firsts
        )

    @cached_property
    def ends(self) -> tuple[Scalar, Scalar]:
        """Where the tensor starts and ends in memory: addresses of bytes."""
        builder, root, size = self.context.builder, self.source.root, self.source.element_bytes
        before: list[Scalar] = [root]
        behind: list[Scalar] = [root, size]
        for leaves in self.source.root_leaves:
            for extent, stride in leaves:
                span = distance(builder, builder.pure("sub.s32", extent, 1), stride, size)
                before.append(builder.pure("min.s64", span, 0))
                behind.append(builder.pure("max.s64", span, 0))
        return builder.total(before, "s64"), builder.total(behind, "s64")

    @cached_property
    def reach(self) -> tuple[Scalar, Scalar]:
        """The first byte of the aligned words of all threads, and the end of the last one."""
        builder, source = self.context.builder, self.source
        rest = (0,) * sum(isinstance(each, DynamicStride) for each in source.leaf_strides)
        (start,) = global_addresses(builder, source, (), [Offset(rest, 0)], self.context.threads)
        first = builder.total([start.base, start.immediate], "s64")
        spans = [
            distance(builder, extent - 1, stride, source.element_bytes)
            for extent, stride in zip(source.leaf_shape, source.leaf_strides, strict=True)
        ]
        ahead = [builder.pure("max.s64", span, 0) for span in spans]
        last = builder.total([first, *ahead, source.element_bytes + _BYTES], "s64")
        back = [builder.pure("min.s64", span, 0) for span in spans]
        return builder.pure("and.b64", builder.total([first, *back], "s64"), -_BYTES), last

    @property
    def is_inside(self) -> Scalar:
        """Whether the tile and the aligned words around it lie in the tensor."""
        return self.context.builder.both(self.access.inside(), self.is_apart)

    @cached_property
    def is_apart(self) -> Scalar:
        """Whether no aligned words that hold elements of the tile lie outside of the tensor in
        part: the same for all threads. None do where the rows go on in front of the tile and
        behind it, or other rows lie there, 16 bytes away or more.
        """
        builder, source, access = self.context.builder, self.source, self.access
        line, other = self.contiguous, 1 - self.contiguous
        stride = source.leaf_strides[access.leaf_of(other)]
        apart: Scalar = isinstance(stride, int) and stride >= self.unit
        if isinstance(stride, DynamicStride):
            apart = builder.pure("setp.ge.s64", stride.value, self.unit)
        low = builder.pure("cvt.u32.u64", source.root)
        is_aligned = builder.pure("setp.eq.s32", builder.pure("and.b32", low, _BYTES - 1), 0)
        in_front = self._either(
            builder.pure("setp.ge.s32", self._before(line), self.unit),
            builder.pure("setp.ge.s32", self._before(other), 1),
            is_aligned,
        )
        behind = self._either(
            builder.pure("setp.ge.s32", self._behind(line), self.unit),
            builder.pure("setp.ge.s32", self._behind(other), 1),
        )
        return builder.both(apart, in_front, behind)

    def _either(self, *tests: Scalar) -> Scalar:
        found: Scalar = False
        for test in tests:
            found = self.context.builder.pure("or.pred", found, test)
        return found

    def _before(self, mode: int) -> Scalar:
        """Elements of the tensor, or of its slice, in front of the tile along a mode."""
        builder, source = self.context.builder, self.source
        wanted = source.root_modes[mode]
        return builder.total(
            builder.pure("mul.lo.s32", coord, extent)
            for along, coord, extent in source.origin
            if along == wanted
        )

    def _behind(self, mode: int) -> Scalar:
        """The same behind the tile, where that is known; else 0."""
        bound = self.source.bounds[mode]
        if bound is None:
            return 0
        return self.context.builder.pure("sub.s32", bound.limit, self.source.shape[mode])

    @cached_property
    def addresses(self) -> list[Scalar]:
        """Of each vector."""
        builder = self.context.builder
        found = self.access.addresses([self.access.offsets[first] for first in self.firsts])
        return [builder.total([each.base, each.immediate], "s64") for each in found]

    @cached_property
    def aligned(self) -> list[Scalar]:
        """Of the aligned words in which each vector begins."""
        return [self.context.builder.pure("and.b64", at, -_BYTES) for at in self.addresses]

    @property
    def words(self) -> list[Address]:
        """Of these and of those behind them."""
        return _pairs([Address(at, 0) for at in self.aligned])

    def _places(self, view: View) -> list[Address]:
        """Of each vector in a tile in shared memory."""
        access = TileAccess(self.context, view, self.tv)
        return access.addresses([access.offsets[first] for first in self.firsts])

    @cached_property
    def shifts(self) -> list[Scalar]:
        """Bytes from there to each vector: one number for all where rows lie that far apart."""
        builder, size = self.context.builder, self.source.element_bytes
        offsets = [self.access.offsets[first] for first in self.firsts]
        divisors = [s.divisor for s in self.source.leaf_strides if isinstance(s, DynamicStride)]
        start = offsets[0]
        found: list[Scalar] = []
        for at, offset in zip(self.addresses, offsets, strict=True):
            steps = [
                (mine - its) * divisor * size
                for mine, its, divisor in zip(offset.dynamic, start.dynamic, divisors, strict=True)
            ]
            steps.append((offset.static - start.static) * size)
            is_same = bool(found) and all(step % _BYTES == 0 for step in steps)
            low = builder.pure("cvt.u32.u64", at)
            found.append(found[0] if is_same else builder.pure("and.b32", low, _BYTES - 1))
        return found

    @property
    def grain(self) -> int:
        """Bytes of which vectors begin at multiples."""
        return replace(self.access, limit_bytes=_BYTES).aligned_to

    @cached_property
    def lengths(self) -> list[Scalar]:
        """Bytes of each vector that its row has."""
        builder, access, mode = self.context.builder, self.access, self.contiguous
        if mode not in access.bounded:
            return [_BYTES] * len(self.firsts)
        found: list[Scalar] = []
        for start in self.starts:
            left = builder.pure("sub.s32", access.remaining(mode), start)
            left = builder.pure("min.s32", builder.pure("max.s32", left, 0), self.unit)
            found.append(builder.pure("mul.lo.s32", left, self.source.element_bytes))
        return found

    @cached_property
    def wanted(self) -> list[Scalar]:
        """Whether a vector has elements in its first aligned words, and in those behind."""
        builder = self.context.builder
        found: list[Scalar] = []
        for number, (length, shift) in enumerate(zip(self.lengths, self.shifts, strict=True)):
            exists = self.exists(number)
            goes_on = builder.pure("setp.gt.s32", builder.pure("add.s32", shift, length), _BYTES)
            is_there = builder.pure("setp.gt.s32", length, 0)
            found += [builder.both(exists, is_there), builder.both(exists, goes_on)]
        return found

    def load(self, is_inside: bool) -> SSAValue:
        """The aligned words of all vectors, eight registers each; 0 for what is not in the tensor
        where it is not known that all of it is.
        """
        context, builder = self.context, self.context.builder
        words = context.registers("b32", 2 * _WORDS * len(self.firsts))
        guards: list[Scalar] = [True] * (2 * len(self.firsts))
        if not is_inside:
            context.fill(words, 0)
            begin, end = self.ends
            guards = []
            for number, at in enumerate(self.aligned):
                low, high = self.wanted[2 * number : 2 * number + 2]
                lies_behind = builder.pure("setp.ge.u64", at, begin)
                ends_before = builder.pure("setp.le.u64", builder.pure("add.s64", at, _BYTES), end)
                guards.append(builder.both(low, lies_behind, ends_before))
                fits = builder.pure("setp.le.u64", builder.pure("add.s64", at, 2 * _BYTES), end)
                guards.append(builder.both(high, fits))
        memory_op(context, ptx.LdOp, "global.v4.b32", words, self.words, guards=guards)
        if not is_inside:
            self._complete(words)
        return words

    def start(self, target: View, is_inside: bool, is_apart: bool) -> None:
        """Start the copies of the aligned words of all vectors, and of those behind each row: of a
        tile that `is_inside`, or one of which it is known that its words are (`is_apart`).
        """
        context, builder = self.context, self.context.builder
        places = self._places(target)
        last = self.source.shape[self.contiguous] - self.unit
        columns = self.columns()
        owner = self.access.owner()
        owners: list[Scalar] = []
        sizes: list[Scalar] = []
        for number, at in enumerate(columns):
            owners += [owner, builder.both(owner, builder.pure("setp.eq.s32", at, last))]
            if not is_inside:
                sizes += [self._bytes_of(number, each, is_apart) for each in range(2)]
        guards = owners
        if not is_apart:
            guards = [
                builder.both(owner, builder.pure("not.pred", self._begins_within(index)))
                for index, owner in enumerate(owners)
            ]
        start_copies(context, "cg", _BYTES, _pairs(places), self.words, sizes, guards)
        if not is_apart:
            self._begin(places, owners)

    def _word(self, index: int) -> Scalar:
        """The address of aligned words: those of a vector are followed by those behind them."""
        number, behind = divmod(index, 2)
        return self.context.builder.pure("add.s64", self.aligned[number], behind * _BYTES)

    def _begins_within(self, index: int) -> Scalar:
        """Whether the tensor begins behind the start of aligned words and within them."""
        builder, begin = self.context.builder, self.ends[0]
        before = builder.pure("and.b64", begin, -_BYTES)
        return builder.both(
            builder.pure("setp.lt.u64", before, begin),
            builder.pure("setp.eq.s64", self._word(index), before),
        )

    def _bytes_of(self, number: int, behind: int, is_apart: bool) -> Scalar:
        """Bytes of aligned words up to the tensor's end, 0 of those that begin behind their row."""
        builder, access, line = self.context.builder, self.access, self.contiguous
        left: Scalar = _BYTES
        if not is_apart:
            at = self._word(2 * number + behind)
            left = builder.pure("min.s64", builder.pure("sub.s64", self.ends[1], at), _BYTES)
            left = builder.pure("cvt.u32.u64", builder.pure("max.s64", left, 0))
            left = builder.pure("selp.b32", left, 0, builder.pure("setp.ge.u64", at, self.ends[0]))
        goes_on: Scalar = True
        if line in access.bounded:
            rest = builder.pure("sub.s32", access.remaining(line), self.starts[number])
            rest = builder.pure("mul.lo.s32", rest, self.source.element_bytes)
            rest = builder.pure("add.s32", rest, self.shifts[number])
            goes_on = builder.pure("setp.gt.s32", rest, behind * _BYTES)
        return builder.pure("selp.b32", left, 0, builder.both(self.exists(number), goes_on))

    def exists(self, number: int) -> Scalar:
        """Whether the tensor has the row of a vector."""
        access, coords = self.access, self.access.coords[self.firsts[number]]
        rows = [
            access.within(mode, coords[access.leaf_of(mode)])
            for mode in access.bounded
            if mode != self.contiguous
        ]
        return self.context.builder.both(access.view.guard, *rows)

    def _begin(self, places: Sequence[Address], owners: Sequence[Scalar]) -> None:
        """Copy the elements of aligned words that begin before the tensor one by one: all other
        words come by asynchronous copies.
        """
        context, builder, size = self.context, self.context.builder, self.source.element_bytes
        (begin, _), (first, _) = self.ends, self.reach
        before = builder.pure("and.b64", begin, -_BYTES)

        def copy() -> None:
            for index, owner in enumerate(owners):
                is_first = self._begins_within(index)
                context.when(builder.both(owner, is_first), partial(one, index), is_rare=True)

        def one(index: int) -> None:
            number, behind = divmod(index, 2)
            loaded = self._elements(before, self.exists(number), in_parts=True)
            place = places[number]
            start = place.immediate + behind * _BYTES
            to = [Address(place.base, start + element * size) for element in range(self.unit)]
            memory_op(context, ptx.StOp, f"shared.b{8 * size}", loaded, to)

        context.when(builder.pure("setp.lt.u64", first, begin), copy, is_rare=True)

    def read(
        self, source: View, goes_on: Sequence[Scalar] | None = None, fills: bool = False
    ) -> SSAValue:
        """The aligned words of all vectors from a tile in shared memory, eight registers each: of
        the second half of them those whose lines go on. With `fills` the others become 0.
        """
        context = self.context
        places = _pairs(self._places(source))
        words = context.registers("b32", _WORDS * len(places))
        if fills:
            context.fill(words, 0)
        guards = [each for on in goes_on or () for each in (True, on)]
        memory_op(context, ptx.LdOp, "shared.v4.b32", words, places, guards=guards)
        return words

    def _complete(self, words: SSAValue) -> None:
        """The aligned words that hold an end of the tensor, element by element."""
        builder = self.context.builder
        (begin, end), (first, last) = self.ends, self.reach
        before = builder.pure("and.b64", begin, -_BYTES)
        self.context.when(
            builder.pure("setp.lt.u64", first, begin),
            lambda: self._replace(words, before),
            is_rare=True,
        )
        behind = builder.pure("and.b64", builder.pure("add.s64", end, -1), -_BYTES)
        self.context.when(
            builder.pure("setp.gt.u64", last, end),
            lambda: self._replace(words, behind),
            is_rare=True,
        )

    def _replace(self, words: SSAValue, at: Scalar) -> None:
        """Of the tensor's elements in the aligned words at an address, where they are wanted."""
        context, builder = self.context, self.context.builder
        is_there = [
            builder.both(wanted, builder.pure("setp.eq.s64", self._word(index), at))
            for index, wanted in enumerate(self.wanted)
        ]
        flags = context.registers("b32", len(is_there))
        for index, each in enumerate(is_there):
            builder.set(flags, index, builder.pure("selp.b32", 1, 0, each))
        loaded = self._elements(at)
        count = len(is_there) * _WORDS

        def choose(args: list[SSAValue]) -> list[Scalar]:
            old, new, flag = args
            return [builder.pure("selp.b32", new, old, builder.pure("setp.ne.s32", flag, 0))]

        sources = [
            (words, range(count)),
            (loaded, [index % _WORDS for index in range(count)]),
            (flags, [index // _WORDS for index in range(count)]),
        ]
        context.foreach(count, sources, [(words, range(count))], choose)

    def _elements(self, at: Scalar, exists: Scalar = True, in_parts: bool = False) -> SSAValue:
        """The elements of the tensor in the aligned words at an address, 0 where they do not
        exist, as four registers, or as a register for each.
        """
        context, builder, size = self.context, self.context.builder, self.source.element_bytes
        cls = "b32" if size == _WORD else "b16"
        parts = context.registers(cls, self.unit)
        context.foreach(self.unit, [], [(parts, range(self.unit))], lambda args: [0])
        begin, end = self.ends
        guards: list[Scalar] = []
        for index in range(self.unit):
            place = builder.pure("add.s64", at, index * size)
            guards.append(
                builder.both(
                    exists,
                    builder.pure("setp.ge.u64", place, begin),
                    builder.pure("setp.lt.u64", place, end),
                )
            )
        places = [Address(at, index * size) for index in range(self.unit)]
        memory_op(context, ptx.LdOp, f"global.b{8 * size}", parts, places, guards=guards)
        if in_parts or size == _WORD:
            return parts
        words = context.registers("b32", _WORDS)
        merge_units(context, parts, words)
        return words

    def shifted(self, words: SSAValue, is_inside: bool, is_tf32: bool) -> SSAValue:
        """The vectors out of their aligned words, four registers each, 0 behind a row's end."""
        lengths = [_BYTES] * len(self.firsts) if is_inside else self.lengths
        return self.moved(words, self.shifts, lengths, self.grain, is_tf32)

    def moved(
        self,
        words: SSAValue,
        shifts: Sequence[Scalar],
        lengths: Sequence[Scalar],
        grain: int,
        is_tf32: bool,
    ) -> SSAValue:
        """The same for vectors that begin so many bytes behind their aligned words, and have so
        many.
        """
        context = self.context
        found = context.registers("b32", _WORDS * len(self.firsts))
        together: dict[tuple[Scalar, Scalar], list[int]] = {}
        for number, facts in enumerate(zip(shifts, lengths, strict=False)):
            if number < len(self.firsts):
                together.setdefault(facts, []).append(number)
        for (shift, length), numbers in together.items():
            sources = [
                (words, [2 * _WORDS * number + i for number in numbers]) for i in range(2 * _WORDS)
            ]
            targets = [(found, [_WORDS * number + i for number in numbers]) for i in range(_WORDS)]
            body = partial(self._shift, shift, self._masks(length), grain, is_tf32)
            context.foreach(len(numbers), sources, targets, body)
        return found

    def store(self, target: View, found: SSAValue) -> None:
        """Write the vectors to a tile in shared memory."""
        places = self._places(target)
        guards = [self.access.owner()] * len(places)
        memory_op(self.context, ptx.StOp, "shared.v4.b32", found, places, guards=guards)

    def _masks(self, length: Scalar) -> Sequence[Scalar]:
        """The bits of each word that belong to a row of which so many bytes are left."""
        builder = self.context.builder
        found: list[Scalar] = []
        for word in range(_WORDS):
            left = builder.pure("sub.s32", length, word * _WORD)
            left = builder.pure("min.s32", builder.pure("max.s32", left, 0), _WORD)
            bits = builder.pure("mul.lo.s32", left, 8)
            # Shifts by 32 give 0 (PTX ISA 9.7.8.8).
            rest = builder.pure("shl.b32", _ONES, bits)
            found.append(builder.pure("not.b32", rest) if rest != 0 else _ONES)
        return found

    def _shift(
        self,
        shift: Scalar,
        masks: Sequence[Scalar],
        grain: int,
        is_tf32: bool,
        words: list[SSAValue],
    ) -> list[Scalar]:
        """Four words that begin so many bytes behind the first of eight."""
        builder = self.context.builder
        moved: list[Scalar] = list(words)
        for words_on in (2, 1):
            if words_on * _WORD < grain:
                continue
            is_far = builder.pure("setp.ne.s32", builder.pure("and.b32", shift, 4 * words_on), 0)
            moved = [
                builder.pure("selp.b32", far, near, is_far)
                for near, far in zip(moved, moved[words_on:], strict=False)
            ]
        if grain < _WORD:
            bits = builder.pure("mul.lo.s32", builder.pure("and.b32", shift, _WORD - 1), 8)
            moved = [
                builder.pure("shf.r.wrap.b32", low, high, bits) for low, high in pairwise(moved)
            ]
        found = [
            word if mask == _ONES else builder.pure("and.b32", word, mask)
            for word, mask in zip(moved, masks, strict=False)
        ]
        if is_tf32:
            found = [
                builder.pure("cvt.rn.tf32.f32", builder.pure("mov.f32", word)) for word in found
            ]
        return found


def _pairs(addresses: Sequence[Address]) -> list[Address]:
    """The 16 bytes at each address, and those behind."""
    return [Address(at.base, at.immediate + step) for at in addresses for step in (0, _BYTES)]
