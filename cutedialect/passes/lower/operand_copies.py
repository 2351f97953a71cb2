"""The lowering of `operand_copy`: tiles are brought to shared memory in the form in which they are
multiplied, some of a tile at a time, which is read to registers, changed there, and written.

    form        reads                             changes                        writes
    shift       the aligned words around vectors  `shf` out of pairs of words    vectors
    convert     vectors                           8-bit floats to 16-bit ones    vectors
    transpose   matrices, of words vectors        `prmt` of pairs of registers   matrices, vectors

Tensor cores read 8-bit and tf32 operands with a contiguous depth alone (PTX ISA 9.7.15.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import gcd

from xdsl.dialects.builtin import FloatTF32Type
from xdsl.ir import SSAValue

from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import OperandCopyType
from cutedialect.layout import Layout

from .context import Context, float_name
from .copies import load_tile, store_tile
from .matrix_copies import TransposedBytes
from .memory_copies import copy_part, copy_tile, in_parts
from .narrow_floats import converts_bytes, from_f32, to_f32
from .scalar_builder import Scalar
from .tile_access import TileAccess
from .unaligned_tiles import UnalignedTile
from .views import View, subview

# Bytes of a vector and of a word, and words of a vector.
_BYTES, _WORD, _WORDS = 16, 4, 4
# Words along a side of a thread's block of a tile that is transposed.
_SIDE = 4
# Values of a thread that are converted at once, and 8-bit floats of a register.
_CONVERTED, _PACK = 32, 4
# Registers of a thread that are never for words on their way, of which a vector has eight, and the
# share of all that is for words of global memory: bounds and pointers of their tiles grow with what
# a role has. Tiles in shared memory have none.
_OTHER_REGISTERS, _SHARE_OF_WORDS = 40, 0.5
# Vectors on their way at one time where the role's registers are not known, and at most.
_VECTORS, _MOST_VECTORS = 4, 8
# Vectors of a thread whose asynchronous copies start together.
_MOST_STARTED = 8


@dataclass(frozen=True)
class Operand:
    """A tile on its way: from where to where, by a tiled copy, if it has one, and of lines that
    came with the words around them the tile of global memory that they are of.
    """

    context: Context
    op: cute.CopyOp
    source: View
    target: View
    tiled: Layout | None
    origin: View | None = None

    @property
    def tv(self) -> Layout:
        """Which thread moves what."""
        if self.tiled is None:
            raise ValueError("expected the attribute tiled (a tiled copy) between memories")
        return self.tiled

    @property
    def is_tf32(self) -> bool:
        """Whether elements of f32 are rounded as TMA rounds them."""
        atom = self.op.atom
        return isinstance(atom, OperandCopyType) and isinstance(atom.element, FloatTF32Type)

    def tile(self) -> UnalignedTile:
        """What is moved, in vectors, as it lies in global memory."""
        return UnalignedTile(self.context, self.origin or self.source, self.tv)

    def move_elements(self) -> None:
        """Copy the tile of global memory element by element."""
        tile = self.origin or self.source
        copy_tile(self.context, tile, self.target, self.tv, tile.element_bytes, self.is_tf32)

    def vectors(self, tile: UnalignedTile, most: int) -> Iterator[tuple[UnalignedTile, View]]:
        """Some vectors of the source after others, and where they go."""
        for read, written, part in in_parts(
            self.context, self.source, self.target, self.tv, most * tile.unit, tile.whole
        ):
            for some in UnalignedTile(self.context, read, part).parts(most):
                yield some, written


def operand_copy(operand: Operand) -> None:
    """Bring a tile to shared memory in the form in which it is multiplied."""
    atom = operand.op.atom
    assert isinstance(atom, OperandCopyType)
    _FORMS[atom.form](operand)


def start_around(operand: Operand) -> None:
    """Start asynchronous copies of a tile with the aligned words around its lines, which are then
    shifted; what is outside of the tensor becomes 0.
    """
    context, tile = operand.context, operand.tile()
    if tile.begins_in_front:
        return  # to what is copied element by element

    def run(most: int, is_inside: bool, is_apart: bool) -> None:
        for some, place in operand.vectors(tile, most):
            some.start(place, is_inside, is_apart)

    def ragged() -> None:
        at_end = partial(run, 1, False, False)
        context.when(tile.is_apart, partial(run, _MOST_STARTED, False, True), at_end)

    is_ragged = context.builder.pure("not.pred", tile.is_inside)
    context.when(is_ragged, ragged, partial(run, _MOST_STARTED, True, True), is_rare=True)


def _shift(operand: Operand) -> None:
    """Vectors of 16 bytes out of the aligned words around them in global memory, or in the shared
    memory to which these came before; 0 for what is outside of the tensor.
    """
    if operand.origin is not None:
        _shift_within(operand)
        return
    context, tile, is_tf32 = operand.context, operand.tile(), operand.is_tf32
    written = TileAccess(context, operand.target, operand.tv)
    if not (tile.is_in_vectors(tile.access) and tile.is_in_vectors(written)):
        operand.move_elements()
        return

    def run(is_inside: bool) -> None:
        most = max(1, _most_vectors(context, _SHARE_OF_WORDS) // (1 if is_inside else 2))
        for some, place in operand.vectors(tile, most):
            some.store(place, some.shifted(some.load(is_inside), is_inside, is_tf32))

    is_ragged = context.builder.pure("not.pred", tile.is_inside)
    context.when(is_ragged, partial(run, False), partial(run, True), is_rare=True)


def _shift_within(operand: Operand) -> None:
    context, tile, is_tf32 = operand.context, operand.tile(), operand.is_tf32
    if tile.begins_in_front:
        # What lies in front of a row belongs to the one before.
        operand.move_elements()
        return
    is_one = len(set(tile.shifts)) == len(set(tile.lengths)) == 1
    most = _most_vectors(context, 1.0)

    def run(is_inside: bool) -> None:
        shift, length = tile.shifts[0], _BYTES if is_inside else tile.lengths[0]
        if not is_one:
            for some in tile.parts(most):
                words = replace(some, source=operand.source).read(operand.source)
                some.store(operand.target, some.shifted(words, is_inside, is_tf32))
            return
        for some, place in operand.vectors(tile, most):
            count = len(some.firsts)
            facts = [shift] * count, [length] * count, tile.grain, is_tf32
            some.store(place, some.moved(some.read(some.source), *facts))

    line = tile.contiguous
    if line not in tile.access.bounded:
        run(True)
        return
    limit, extent = tile.source.bound(line).limit, tile.source.shape[line]
    is_cut = context.builder.pure("setp.lt.s32", limit, extent)
    context.when(is_cut, partial(run, False), partial(run, True), is_rare=True)


def _most_vectors(context: Context, share: float) -> int:
    """Vectors of a thread that are loaded before they are stored, in a share of its registers."""
    if context.team.registers is None:
        return _VECTORS
    registers = context.team.registers
    free = min(registers - _OTHER_REGISTERS, int(share * registers))
    return max(1, min(_MOST_VECTORS, free // (2 * _WORDS)))


def _convert(operand: Operand) -> None:
    """8-bit floats to 16-bit ones, for tensor cores that multiply them by others of 16 bits."""
    context, source, target = operand.context, operand.source, operand.target
    names = float_name(source.element), float_name(target.element)
    for read, written, part in in_parts(context, source, target, operand.tv, _CONVERTED):
        count = -(-part[1].size() // _PACK)
        narrow, wide = context.registers("b32", count), context.registers("b32", 2 * count)
        load_tile(context, read, narrow, part)
        targets = [(wide, range(half, 2 * count, 2)) for half in range(2)]
        context.foreach(count, [(narrow, range(count))], targets, partial(_widened, context, names))
        store_tile(context, written, wide, part)


def _widened(context: Context, names: tuple[str, str], args: list[SSAValue]) -> list[Scalar]:
    """The four elements of a register as two registers."""
    builder, (source, target) = context.builder, names
    halves = builder.unpack(args[0])
    if target == "f16" and converts_bytes(builder, source):
        return [builder.pure(f"cvt.rn.f16x2.{source}x2", half) for half in halves]
    result: list[Scalar] = []
    for half in halves:
        elements = half, builder.pure("shr.u16", half, 8)
        floats = [to_f32(builder, each, source) for each in elements]
        result.append(builder.pack(*(from_f32(builder, each, target) for each in floats)))
    return result


def _transpose(operand: Operand) -> None:
    """Contiguous rows to a contiguous depth."""
    if operand.source.element_bytes == _WORD:
        _transpose_words(operand.context, operand.source, operand.target)
        return
    tile = TransposedBytes(operand.context, operand.op, operand.source, operand.target)
    for part in tile.parts():
        tile.write(part, tile.regrouped(tile.read(part)))


def _transpose_words(context: Context, source: View, target: View) -> None:
    """Each thread loads vectors of a block of 4 by 4 along one mode, and stores the same registers
    as vectors along the other, in parts of which a thread has one block. Eight lanes, which move
    vectors together, have two blocks of the rows beside each other and four of the depth, whose
    vectors are written to different banks, and are read from each twice.
    """
    rows, depth = source.shape
    high = gcd(rows // _SIDE, max(2, context.threads * _SIDE // depth))
    along = depth // _SIDE
    lanes = gcd(high, 2), gcd(along, 4)
    extent = high * _SIDE
    steps = (_SIDE, _SIDE * extent)
    threads = (
        (lanes[0], steps[0]),
        (lanes[1], steps[1]),
        (high // lanes[0], lanes[0] * steps[0]),
        (along // lanes[1], lanes[1] * steps[1]),
    )
    tv = Layout(
        (tuple(e for e, _ in threads), (_SIDE, _SIDE)), (tuple(s for _, s in threads), (1, extent))
    )
    for first in range(0, rows, extent):
        read, written = (
            subview(context.builder, view, (first, 0), (extent, depth)) for view in (source, target)
        )
        copy_part(context, read, written, tv, _BYTES, is_inside=True)


_FORMS: dict[str, Callable[[Operand], None]] = {
    "shift": _shift,
    "convert": _convert,
    "transpose": _transpose,
}
