"""Operands on their way: what of each operand of a multiply comes to shared memory, who brings it
there, in which form it is multiplied, and who computes that.

    for k { %w = load W[k]; %x = map %w {convert}; gemm %x, X[k], %acc }

An operand is a tile of global memory, whose rows a program may number, or a register tile that
maps, conversions, transposes and unpacks compute from what they load. The first row of `PLANS` that
applies is its plan, and the first one of `CARRIERS` that takes a tile brings it. A load that begins
a chain can run ahead of its trip as that of a plain operand does, as it is in memory; what is
computed from it stays in front of the multiply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
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

from cutedialect.atoms import target
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
from cutedialect.layout import TiledCopy
from cutedialect.passes.analysis.gathered_rows import IN_FOURS, why_not_in_fours
from cutedialect.passes.analysis.layout_inference import (
    begins_anywhere,
    coalesced_for,
    contiguous_mode,
    takes_async_copy,
    vector_bytes,
)
from cutedialect.passes.analysis.memory_views import depends_on
from cutedialect.passes.analysis.smem_layouts import is_held, staging_layout, untransposed
from cutedialect.passes.analysis.tensor_maps import boxes_into, boxes_of, is_joined, part_of
from cutedialect.passes.analysis.thread_layouts import modes_of
from cutedialect.plans import Plan

# Modes of an operand.
_MODES = 2
# Bytes of the narrowest asynchronous copy, bits of a word, and rows and depth of a tile that warps
# transpose: 16 rows by 32 of the depth of bytes, two of them side by side, a quarter of words.
_LEAST_ASYNC, _WORD_BITS, _TRANSPOSED = 4, 32, 32
_BYTE, _VECTOR = 8, 16
# Columns from which on multiplies take longer than a conversion of what they multiply: 11 % of 4096
# rows by weights of 8 bits on an H200; 128 columns take up to 20 % more so, 16 to 64 1 to 11 %, by
# copies of what was converted. Two trips in one have none (`unroll = 2`), and are asked for.
_LONG = 256
# What computes a register tile of others, element by element or by moving elements.
_LINKS = (MapOp, ConvertOp, ExtractOp, TransposeOp, UnpackOp)

NUMBERS_ROWS = "numbers_rows"
"""The attribute of an op that has a part in the numbers of rows that are copied to shared memory:
it is done by who copies these.
"""
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
    (`OperandCopyType`) or, without one, in registers. A row that is `declined` says why nobody does
    so, although a schedule may ask for it: the next row takes its operands.
    """

    unit: str
    applies: Callable[[GemmOp, SSAValue], bool]
    travels: str
    computes: str | None = None
    form: str | None = None
    declined: str = ""


def plan_of(op: GemmOp, value: SSAValue, unit: str = WARPGROUPS) -> OperandPlan:
    """The plan of an operand of a multiply."""
    return next(row for row in _rows_of(op, value, unit) if not row.declined)


def declined_plan(op: GemmOp, value: SSAValue, unit: str, plan: Plan) -> str:
    """Why an operand has not the plan that the roles of a schedule ask for; empty where it has."""
    first = next(_rows_of(op, value, unit))
    asks = first.computes == "prepares" and plan.has_preparing_group
    return first.declined if asks else ""


def _rows_of(op: GemmOp, value: SSAValue, unit: str) -> Iterator[OperandPlan]:
    return (row for row in PLANS if row.unit in (ANY, unit) and row.applies(op, value))


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
    OperandPlan(
        WARPGROUPS,
        _is_computed,
        SOURCES,
        "prepares",
        declined="its steps are laid out in the registers of those who multiply, and a role that "
        "prepares copies from shared memory to shared memory",
    ),
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


@dataclass(frozen=True)
class Load:
    """A tile of global memory on its way to a buffer in shared memory: whether a role loads it,
    whether the schedule wants threads to, which are so many, whether it is multiplied there, and
    whether those who compute have registers to load it ahead.
    """

    tile: SSAValue
    buffer: MemRefType
    arch: str
    by_role: bool
    by_threads: bool
    threads: int
    is_multiplied: bool
    may_wait: Callable[[], bool]

    @property
    def part(self) -> MemRefType:
        """The type of what is copied at once."""
        return part_of(self.tile)

    @property
    def is_f32(self) -> bool:
        """Whether it has elements of f32."""
        return isinstance(self.part.element, Float32Type)

    @property
    def is_numbered(self) -> bool:
        """Whether a program numbers its rows."""
        return isinstance(self.tile.owner, IndexedTileOp)

    @property
    def is_rounded(self) -> bool:
        """Whether a role rounds f32 on its way, which tensor cores would cut off."""
        return self.is_f32 and self.is_multiplied and self.by_role and not self.is_numbered

    @property
    def is_free(self) -> bool:
        """Whether a role loads it in whichever way, since no copy is named."""
        return self.by_role and not self.is_numbered and named_copy(self.tile) is None

    @property
    def takes_async_copy(self) -> bool:
        """Whether asynchronous copies by threads bring it."""
        return takes_async_copy(self.part, self.arch)

    @property
    def takes_registers(self) -> bool:
        """Whether it may go through registers: those of a role that loads are few for addresses of
        numbered rows beside what is on its way, and elements of 6 bits get gaps.
        """
        return not (self.is_spread or (self.by_role and self.is_numbered))

    @property
    def is_spread(self) -> bool:
        """Whether elements that bytes hold without gaps get some."""
        return is_held(element_of(self.tile.type), self.buffer.element)

    @cached_property
    def copy(self) -> TiledCopy:
        """Which thread copies what, where threads do: as named, or coalesced."""
        return named_copy(self.tile) or coalesced_for(self.part, self.threads)

    @cached_property
    def width(self) -> int:
        """Bytes beside each other that a thread copies at once: a power of two."""
        step = prod(self.copy.tiler[: contiguous_mode(self.part) or 0])
        run = next((extent for extent, stride in modes_of(self.copy.tv[1]) if stride == step), 1)
        return min(vector_bytes(self.part), (run & -run) * self.part.bits // 8)


BOXES, ROWS, ASYNC = "TMA", "TMA of rows", "cp.async"
SHIFTS, AHEAD, THREADS = "shifts", "registers ahead", "registers"
"""Who brings a tile: TMA in boxes or by numbers of rows, asynchronous copies of threads, threads
that shift vectors into place on the way, those that compute while they do so for another trip, and
threads.
"""


class Carrier(NamedTuple):
    """One who may bring tiles of global memory to shared memory, whether it is asked for one, and
    why it does not take that; empty where it does.
    """

    name: str
    is_asked: Callable[[Load], bool]
    declined: Callable[[Load], str]


def carrier_of(load: Load) -> tuple[str, dict[str, str]]:
    """Who brings a tile, and why others that are asked before do not. ValueError where nobody
    does.
    """
    declined: dict[str, str] = {}
    for row in (row for row in CARRIERS if row.is_asked(load)):
        if not (why := row.declined(load)):
            return row.name, declined
        declined[row.name] = why
    if load.is_spread:
        raise ValueError(
            "expected elements of 6 bits that TMA brings, 128 of a row at once, got "
            f"{declined.get(BOXES, 'copies of threads')}; leave loads out of the schedule, and let "
            "cute.pack fill rows up"
        )
    least = _VECTOR if load.is_f32 else _LEAST_ASYNC
    raise ValueError(
        f"expected rows that a program numbers to be aligned to {least} bytes where a role loads "
        f"them, got {vector_bytes(load.part)}; take roles = uniform, or align the rows"
    )


def asks_boxes(load: Load) -> bool:
    """Whether TMA is asked for a tile: not where a schedule wants threads that can copy it."""
    return load.is_free and not (load.by_threads and load.takes_async_copy)


def why_no_boxes(load: Load) -> str:
    """Why TMA does not bring a tile; empty where it does."""
    found = boxes_into(load.tile, load.buffer)
    return found if isinstance(found, str) else ""


def comes_by_tma(tile: SSAValue) -> bool:
    """Whether a tile of rank 2 can be loaded as boxes, or as numbered rows, wherever it goes."""
    made, type_ = untransposed(tile)[0].owner, part_of(tile)
    if isinstance(made, IndexedTileOp) and made.pixels is None:
        is_known = NUMBERS_ROWS in made.attributes
        return IN_FOURS in made.attributes if is_known else not why_not_in_fours(made)
    if type_.rank != _MODES:
        return False
    layout, _, _ = staging_layout(shape_of(tile.type), contiguous_mode(type_), type_.bits)
    return not isinstance(boxes_of(tile, type_.shape, layout), str)


def _comes_in_fours(load: Load) -> bool:
    """Whether those who load have the numbers of a tile's rows as TMA wants them: why not is said
    where these are given out (`bind/gathered_rows.py`).
    """
    return load.is_numbered and IN_FOURS in load.tile.owner.attributes  # pyright: ignore


def _has_async_copies(load: Load) -> bool:
    return target(load.arch).has_instruction("cp.async.ca.shared.global")


def _why_not_async(load: Load) -> str:
    if load.is_spread:
        return "elements of 6 bits get gaps"
    if load.is_rounded:
        return "f32 is rounded on its way"
    if contiguous_mode(load.part) is None:
        return "no mode of the tile is contiguous"
    if load.by_role and load.is_numbered and load.is_f32 and begins_anywhere(load.part):
        return "rows of f32 begin at any element"
    if not load.takes_async_copy or load.width < _LEAST_ASYNC:
        return f"threads copy {load.width} bytes at once, fewer than {_LEAST_ASYNC}"
    return ""


def _is_shifted_by_threads(load: Load) -> bool:
    is_ragged = begins_anywhere(load.part) and (load.is_f32 or not load.takes_async_copy)
    return load.is_free and load.takes_registers and is_ragged


def _is_loaded_ahead(load: Load) -> bool:
    """Whether those who compute load a tile, in vectors that asynchronous copies do not take."""
    is_alone = not (load.by_role or load.is_numbered or is_joined(load.tile))
    return is_alone and _has_async_copies(load)


CARRIERS = (
    Carrier(BOXES, asks_boxes, why_no_boxes),
    Carrier(ROWS, _comes_in_fours, lambda load: ""),
    Carrier(ASYNC, _has_async_copies, _why_not_async),
    Carrier(SHIFTS, _is_shifted_by_threads, lambda load: ""),
    Carrier(
        AHEAD, _is_loaded_ahead, lambda load: "" if load.may_wait() else "they hold other tiles"
    ),
    Carrier(THREADS, lambda load: load.takes_registers, lambda load: ""),
)
"""Who brings tiles to shared memory, the best first."""


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
