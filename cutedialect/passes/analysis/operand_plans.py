"""Operands on their way: what of each operand of a multiply comes to shared memory, in which form
it is multiplied, and who computes that.

    for k { %w = load W[k]; %x = map %w {convert}; gemm %x, X[k], %acc }

An operand is a tile of global memory, whose rows a program may number, or a register tile that
maps, conversions, transposes and unpacks compute from what they load. The first row of `PLANS` that
applies carries it. A load that begins a chain can run ahead of its trip as that of a plain operand
does, as it is in memory; what is computed from it stays in front of the multiply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from xdsl.dialects import scf
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
)
from xdsl.ir import Attribute, Operation, SSAValue

from cutedialect.dialects.cute import (
    AllocFragmentOp,
    ConvertOp,
    ExtractOp,
    FillOp,
    FragmentType,
    GemmOp,
    IndexedTileOp,
    KernelOp,
    LoadOp,
    MapOp,
    MemRefType,
    TransposeOp,
    UnpackOp,
    element_of,
    named_copy,
    shape_of,
)
from cutedialect.passes.analysis.layout_inference import (
    begins_anywhere,
    contiguous_mode,
    vector_bytes,
)
from cutedialect.passes.analysis.memory_views import depends_on
from cutedialect.passes.analysis.smem_layouts import untransposed
from cutedialect.passes.analysis.tensor_maps import is_joined

# Modes of an operand.
_MODES = 2
# Bytes of the narrowest asynchronous copy, bits of a word, and rows and depth of a tile that warps
# transpose: 16 rows by 32 of the depth of bytes, two of them side by side, a quarter of words.
_LEAST_ASYNC, _WORD_BITS, _TRANSPOSED = 4, 32, 32
_BYTE = 8
# Columns from which on multiplies take longer than a conversion of what they multiply: 11 % of 4096
# rows by weights of 8 bits on an H200; 128 columns take up to 20 % more so, 16 to 64 1 to 11 %, by
# copies of what was converted. Two trips in one have none (`unroll = 2`), and are asked for.
_LONG = 256
# What computes a register tile of others, element by element or by moving elements.
_LINKS = (MapOp, ConvertOp, ExtractOp, TransposeOp, UnpackOp)

TILE, LINES, SOURCES, NOTHING = "tile", "lines", "sources", ""
"""What comes to shared memory: the tile as it lies in memory, whichever rows of it a program
numbers; the same with the aligned words around its lines; the tiles from which an operand is
computed; what is multiplied alone.
"""
WARPS, WARPGROUPS, TENSOR_MEMORY, ANY = "mma.sync", "wgmma", "tcgen05", ""
"""Who multiplies operands of a plan."""


class OperandPlan(NamedTuple):
    """How operands of a kind come to their multiply: what of one `travels` to shared memory, and
    the kind of role (`plans.KINDS`) that `computes` what is multiplied: by a copy of a `form`
    (`OperandCopyType`) or, without one, in registers.
    """

    unit: str
    applies: Callable[[GemmOp, SSAValue], bool]
    travels: str
    computes: str | None = None
    form: str | None = None


def plan_of(op: GemmOp, value: SSAValue, unit: str = WARPGROUPS) -> OperandPlan:
    """The plan of an operand of a multiply."""
    return next(row for row in PLANS if row.unit in (ANY, unit) and row.applies(op, value))


def multiplied_element(op: GemmOp, value: SSAValue) -> Attribute:
    """The element type with which an operand is multiplied: 8-bit floats in memory beside 16-bit
    ones are converted to these, which is exact.
    """
    mine = element_of(value.type)
    if (held := op.held_element(value)) is not None:
        return held
    other = element_of((op.b if value is op.a else op.a).type)
    is_short = isinstance(other, Float16Type | BFloat16Type)
    is_byte = isinstance(mine, Float8E4M3FNType | Float8E5M2Type)
    return other if is_short and is_byte and isinstance(value.type, MemRefType) else mine


def multiplied_elements(op: GemmOp) -> tuple[Attribute, Attribute, Attribute]:
    """The element types of A, B and the accumulator of a multiply."""
    pair = Float4E2M1FNType() if op.has_pairs else None
    a, b = (pair or multiplied_element(op, value) for value in (op.a, op.b))
    return a, b, element_of(op.acc.type)


def gmem_type(value: SSAValue) -> MemRefType | None:
    """The type of an operand in global memory; None for any other."""
    type_ = value.type
    return type_ if isinstance(type_, MemRefType) and type_.space == "gmem" else None


def is_converted(op: GemmOp, value: SSAValue) -> bool:
    """Whether an operand in memory has another element type when it is multiplied."""
    is_held = op.held_element(value) is not None
    return not is_held and multiplied_element(op, value) != element_of(value.type)


def _is_computed(op: GemmOp, value: SSAValue) -> bool:
    return isinstance(value.type, FragmentType)


def _is_converted_by_loads(op: GemmOp, value: SSAValue) -> bool:
    """Whether threads convert an operand between the registers to which they load it and shared
    memory: rows that a program numbers they copy as they are.
    """
    return is_converted(op, value) and not _is_numbered(value)


def _is_numbered(value: SSAValue) -> bool:
    return isinstance(untransposed(value)[0].owner, IndexedTileOp)


def _is_numbered_by_others(op: GemmOp, value: SSAValue) -> bool:
    """Whether those who copy a tile's rows cannot number them."""
    tile = untransposed(value)[0].owner
    return isinstance(tile, IndexedTileOp) and tile.places is None and numbers_of(tile) is None


def numbers_of(tile: IndexedTileOp) -> set[Operation] | None:
    """The ops that load and compute, element by element, the numbers of rows, which who copies
    these does again; None where threads exchange what they are computed from.
    """
    found: set[Operation] = set()
    pending = [tile.rows]
    while pending:
        op = pending.pop().owner
        if op in found:
            continue
        if isinstance(op, MapOp):
            pending += op.inputs
        elif isinstance(op, AllocFragmentOp):
            users = [use.operation for use in op.result.uses]
            fills = [each for each in users if isinstance(each, FillOp)]
            others = (each for each in users if each not in fills)
            is_constant = all(isinstance(each, MapOp | IndexedTileOp) for each in others)
            if len(fills) != 1 or not is_constant or fills[0].parent is not op.parent:
                return None
            found.add(fills[0])
        elif not isinstance(op, LoadOp) or isinstance(op.source.owner, IndexedTileOp):
            return None
        assert isinstance(op, Operation)
        found.add(op)
    return found


def _is_in_words(op: GemmOp, value: SSAValue) -> bool:
    """Whether threads bring an A of words with contiguous rows from shared memory to registers,
    each what it holds of A there: a word is an element, wherever its neighbors lie.
    """
    type_ = gmem_type(value)
    if type_ is None or value is not op.a or value is op.b or type_.bits != _WORD_BITS:
        return False
    return contiguous_mode(type_) == 0 and not begins_anywhere(type_)


def _is_transposed(op: GemmOp, value: SSAValue) -> bool:
    """Whether a tile of bytes, or of words, feeds `wgmma` after a copy that makes its depth
    contiguous.
    """
    type_ = gmem_type(value)
    if type_ is None or type_.bits not in (_BYTE, _WORD_BITS) or contiguous_mode(type_) != 0:
        return False
    return all(extent % _TRANSPOSED == 0 for extent in type_.shape)


def _is_shifted(op: GemmOp, value: SSAValue) -> bool:
    """Whether a tile whose rows begin at any element feeds `wgmma` after a copy that shifts them
    into place: one that asynchronous copies of 4 bytes do not take, or of f32, which is rounded.
    Of rows that a program numbers no words lie around a tile.
    """
    type_ = gmem_type(value)
    if type_ is None or is_joined(value) or named_copy(value) is not None or _is_numbered(value):
        return False
    takes_words = vector_bytes(type_) >= _LEAST_ASYNC and not isinstance(type_.element, Float32Type)
    return begins_anywhere(type_) and not takes_words


PLANS = (
    OperandPlan(ANY, _is_computed, SOURCES, "multiplies"),
    OperandPlan(ANY, _is_numbered_by_others, SOURCES, "multiplies"),
    OperandPlan(WARPS, _is_converted_by_loads, NOTHING, "loads", "convert"),
    OperandPlan(ANY, is_converted, TILE, "prepares", "convert"),
    OperandPlan(WARPGROUPS, _is_in_words, TILE, "multiplies"),
    OperandPlan(WARPGROUPS, _is_transposed, TILE, "prepares", "transpose"),
    OperandPlan(WARPGROUPS, _is_shifted, LINES, "prepares", "shift"),
    OperandPlan(ANY, lambda op, value: True, TILE),
)
"""The plans of operands; the last one is of tiles that are multiplied as they are in memory."""


def multiplies_fed(op: LoadOp) -> list[GemmOp]:
    """The multiplies in the block of a load whose operands are computed from what it loads, where
    nothing else is: empty where another op takes it, or what is computed from it, and where what
    another multiply gives is an operand's part.
    """
    found: dict[GemmOp, None] = {}
    for user, value in _users(op.result):
        if not isinstance(user, GemmOp) or user.acc is value or user.parent is not op.parent:
            return []
        if _is_of_products(value):
            return []
        found[user] = None
    return [*found]


def computes_ahead(kernel: KernelOp, op: GemmOp) -> bool:
    """Whether a trip may compute an operand for the next one's multiply, beside its own
    (`passes/schedule/operands_ahead.py`).
    """
    columns = shape_of(op.acc.type)[1]
    return columns >= _LONG or (kernel.choices.unroll or 1) > 1


def is_on_its_way(op: LoadOp) -> bool:
    """Whether a load begins an operand that each trip of a loop computes anew from another tile.
    Rows and columns that are computed with one, such as logarithms, begin none.
    """
    return not _is_line(op) and bool(multiplies_fed(op)) and _changes(op)


def is_beside_one_on_its_way(op: LoadOp) -> bool:
    """Whether a load brings a line, such as the scales or the zeros of a group, anew in each trip
    of a loop that computes an operand on its way: who computes has no time to wait for memory.
    """
    if op.parent is None or not _is_line(op) or not _changes(op):
        return False
    loads = (each for each in op.parent.ops if isinstance(each, LoadOp))
    return any(not _is_line(each) and multiplies_fed(each) for each in loads)


def is_beside_products(op: LoadOp) -> bool:
    """Whether a load brings a line anew in each trip of a loop that multiplies bytes as they are in
    memory and computes on the product of the trip, as on those with scales of blocks: a step is
    shorter than memory takes.
    """
    if op.parent is None or not _is_line(op) or not _changes(op):
        return False
    gemms = [each for each in op.parent.ops if isinstance(each, GemmOp)]
    tiles = [each.type for gemm in gemms for each in (gemm.a, gemm.b)]
    owners = [gemm.acc.owner for gemm in gemms]
    are_bytes = all(isinstance(type_, MemRefType) and type_.bits == _BYTE for type_ in tiles)
    is_made = any(isinstance(each, Operation) and each.parent is op.parent for each in owners)
    return are_bytes and is_made


def _is_line(op: LoadOp) -> bool:
    shape = op.result.type.shape if isinstance(op.result.type, FragmentType) else ()
    return len(shape) < _MODES or 1 in shape


def _changes(op: LoadOp) -> bool:
    """Whether each trip of the loop that a load is in loads another tile."""
    loop = None if op.parent is None else op.parent.parent_op()
    if not isinstance(loop, scf.ForOp):
        return False
    return any(depends_on(op.source, number) for number in loop.body.block.args)


def _users(tile: SSAValue) -> Iterator[tuple[Operation, SSAValue]]:
    """What ends the chains that begin at a register tile: the users that are no link, and what they
    use.
    """
    pending, seen = [tile], {tile}
    while pending:
        value = pending.pop()
        for use in value.uses:
            user = use.operation
            if not isinstance(user, _LINKS):
                yield user, value
                continue
            for result in user.results:
                if isinstance(result.type, FragmentType) and result not in seen:
                    seen.add(result)
                    pending.append(result)


def _is_of_products(tile: SSAValue) -> bool:
    """Whether a register tile is computed from an accumulator of multiplies."""
    pending, seen = [tile], {tile}
    while pending:
        value = pending.pop()
        users = (use.operation for use in value.uses)
        if any(isinstance(user, GemmOp) and user.acc is value for user in users):
            return True
        owner = value.owner
        if isinstance(owner, _LINKS):
            new = [each for each in owner.operands if each not in seen]
            seen.update(new)
            pending += new
    return False
