"""Arithmetic on register tiles: fills, matrix multiplies, maps, reductions, atomics."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import Attribute, Operation, SSAValue

from cutedialect.atoms import WARP_SIZE, MmaAtom, find_mma, target
from cutedialect.dialects import cute, ptx
from cutedialect.dialects.cute_nvgpu import (
    RoundToTf32Op,
    Sm80MmaType,
    Sm90MmaType,
    Sm100MmaType,
)
from cutedialect.dialects.effects import written_by
from cutedialect.dialects.element_names import element_name, operand_name
from cutedialect.dialects.walks import ops_ahead

from . import tensor_memory
from .context import Context, array_class, number_name, register_class
from .copies import reduce_tile
from .elementwise import Fragment, as_operand, lower_map
from .fetches import fetch_tile
from .large_elements import has_large, tested
from .loaded_extremes import extreme_of_parts
from .lowering import Handler, KernelLowering
from .places import shared_by_copies
from .reductions import lower_reduce
from .scalar_builder import Scalar
from .wgmma import fresh_accumulator, lower_wgmma

# Instructions that find scales of their rows of A, and of their columns of B, in a word of a warp.
_INSTRUCTIONS_OF_A_WORD = 2, 4


def _fill(self: KernelLowering, op: cute.FillOp) -> None:
    fragment, builder = self.fragment(op, op.fragment), self.builder
    value, pack = self.scalars[op.value], fragment.pack
    constant = builder.constant(value)
    fresh = fresh_accumulator(op) if constant == 0 else None
    if fresh is not None:
        self.fresh[fresh.first] = fresh
        if fresh.reader is not None:
            self.unsettled.setdefault(fresh.reader, []).append(fresh)
        return
    if pack > 1 and constant is not None:
        bits = 32 // pack
        part = int(constant) & ((1 << bits) - 1)
        value = sum(part << (bits * i) for i in range(pack))
    elif pack > 1:
        if pack == 4:
            low = builder.pure("and.b16", value, 255)
            value = builder.pure("or.b16", low, builder.pure("shl.b16", low, 8))
        value = builder.pack(value, value)
    self.context.fill(fragment.array, value)


def _gemm(self: KernelLowering, op: cute.GemmOp) -> None:
    if isinstance(op.atom, Sm100MmaType):
        tensor_memory.multiply(self, op)
        return
    acc = self.fragment(op, op.acc)
    if isinstance(op.atom, Sm90MmaType):
        in_registers = op.atom.a_source == "rmem"
        a = self.fragment(op, op.a) if in_registers else self.view(op, op.a)
        keeps: Scalar = True
        fresh = self.fresh.get(op)
        if fresh is not None and fresh.loop is None:
            keeps = False
        elif fresh is not None and fresh.loop is not None:
            counter = self.scalars[fresh.loop.body.block.args[0]]
            keeps = self.builder.pure("setp.gt.s32", counter, self.scalars[fresh.loop.lb])
        multiply = lower_wgmma(self.context, op, a, self.view(op, op.b), acc, keeps)
        if in_registers:
            from .early_multiplies import begin_early

            begin_early(op, multiply)
        return
    words = [self.fragment(op, each) for each in op.factors]
    _lower_mma(self.context, op, self.fragment(op, op.a), self.fragment(op, op.b), acc, words)


def _round_to_tf32(self: KernelLowering, op: RoundToTf32Op) -> None:
    tile = self.fragment(op, op.source)
    self.fragments[op.result] = Fragment(tile.type, as_operand(self.context, tile))


def _lower_mma(
    context: Context,
    op: cute.GemmOp,
    a: Fragment,
    b: Fragment,
    acc: Fragment,
    words: Sequence[Fragment] = (),
) -> None:
    """acc += a b^T by `mma.sync`: one op for all instructions, their registers in tables; k
    outermost, so that an accumulator rests between two of its updates. `words` are the scales of
    blocks of both operands.
    """
    atom = _mma_atom(op.atom, context.arch)
    counts = (atom.registers_c, atom.registers_a, atom.registers_b)
    values = atom.in_bytes.values
    rests = [each.repetitions(n) for each, n in zip((a, b, acc), values, strict=True)]
    (rows, depth), (columns, depth_b), of_acc = rests
    if of_acc != (rows, columns) or depth != depth_b:
        raise ValueError(
            f"expected repetitions (M,K), (N,K) and (M,N) that agree, got {rests[0]}, {rests[1]} "
            f"and {rests[2]}"
        )
    # Every other column runs backwards: the last A registers are used again at once.
    order = [
        (step if n % 2 == 0 else rows - 1 - step, n, k)
        for k in range(depth)
        for n in range(columns)
        for step in range(rows)
    ]
    context.builder.emit(
        ptx.MmaOp(
            atom.ptx.split(".", 1)[1],
            acc.array,
            as_operand(context, a),
            as_operand(context, b),
            counts,
            [(m + rows * n) * counts[0] for m, n, _ in order],
            [(m + rows * k) * counts[1] for m, _, k in order],
            [(n + columns * k) * counts[2] for _, n, k in order],
            _scales(op, words, order) if words else None,
        )
    )


def _scales(
    op: cute.GemmOp, words: Sequence[Fragment], order: Sequence[tuple[int, int, int]]
) -> ptx.MmaScales:
    """Where each instruction finds its scales: a word has those of the rows of two, or of the
    columns of four, in the threads of a quad.
    """
    of_a, of_b = words
    rows, columns = _INSTRUCTIONS_OF_A_WORD
    return ptx.MmaScales(
        of_a.array,
        of_b.array,
        [divmod(m, rows) for m, _, _ in order],
        [divmod(n, columns) for _, n, _ in order],
        op.first_factor,
    )


def _mma_atom(type_: Attribute | None, arch: str) -> MmaAtom:
    if not isinstance(type_, Sm80MmaType):
        raise ValueError(f"expected an MMA atom (cute_nvgpu.sm80.mma), got {type_}")
    if type_.kind or type_.entry().thr_id.size() != WARP_SIZE:
        return type_.entry(arch)
    found = find_mma(operand_name(type_.a), operand_name(type_.b), element_name(type_.c), arch)
    whole = [atom for atom in found if atom.thr_id.size() == WARP_SIZE]
    for atom in whole:
        if atom.shape_mnk == type_.shape:
            return atom
    shapes = ", ".join("x".join(map(str, atom.shape_mnk)) for atom in whole)
    shapes = shapes or "none of a whole warp, but of its quarters"
    raise ValueError(
        f"expected a shape that {arch} has for these types ({shapes}), "
        f"got {'x'.join(map(str, type_.shape))}"
    )


def _map(self: KernelLowering, op: cute.MapOp) -> None:
    inputs = [self.fragment(op, each) for each in op.inputs]
    readers = [use.operation for use in op.result.uses]
    if all(isinstance(reader, cute.AnyOp) for reader in readers) and tested(op) is not None:
        found = has_large(self.context, inputs[0])
        if found is not None:
            self.tests[op.result] = found
            return
    copy, assigned = _assignment(op), None
    if copy is not None:
        assigned = self.fragments.get(copy.destination)
        if assigned is not None and (
            self.is_touched_between(op, copy, assigned)
            or assigned.type != op.result.type
            or array_class(assigned.array) != register_class(assigned.type.element)
        ):
            assigned = None
    result = lower_map(self.context, op, inputs, self.scalars, assigned)
    self.fragments[op.result] = result
    if copy is not None and assigned is not None and result.array is assigned.array:
        self.done.add(copy)


def _assignment(op: cute.MapOp) -> cute.CopyOp | None:
    """The copy later in the block that is the only use of a map."""
    copy = op.result.get_user_of_unique_use()
    if not isinstance(copy, cute.CopyOp) or copy.source is not op.result or copy.pred is not None:
        return None
    return copy if copy.parent is op.parent else None


def _reduce(self: KernelLowering, op: cute.ReduceOp) -> None:
    known = _known_parts(op)
    if known is not None and known.result in self.fragments:
        self.fragments[op.result] = Fragment(op.result.type, self.fragments[known.result].array)
        return
    parts = self.extremes.pop(op, None)
    if parts is not None:
        self.fragments[op.result] = extreme_of_parts(self, op, parts)
        return
    source = self.fragment(op, op.source)
    self.fragments[op.result] = lower_reduce(self.context, op, source, self.scalars)


def _known_parts(op: cute.ReduceOp) -> cute.ReduceOp | None:
    """An earlier reduction that gave each thread the same results: those of its own elements, of
    the same tile, which nothing has written since. The shapes of local results may differ.
    """
    if op.local is None:
        return None
    for use in op.source.uses:
        known = use.operation
        if (
            isinstance(known, cute.ReduceOp)
            and known is not op
            and known.properties == op.properties
            and known.result.type.element == op.result.type.element
            and _keeps_between(known, op, op.source)
        ):
            return known
    return None


def _keeps_between(first: Operation, last: Operation, tile: SSAValue) -> bool:
    """Whether `first` comes before `last` in straight code, perhaps in front of branches around it,
    and nothing writes a tile on the way.
    """
    op = last
    while True:
        for before in ops_ahead(op):
            if before is first:
                return True
            if tile in written_by(before):
                return False
        around = op.parent_op()
        if not isinstance(around, scf.IfOp):
            return False
        op = around


def _any(self: KernelLowering, op: cute.AnyOp) -> None:
    found: Scalar = self.tests.get(op.source, False)
    if op.source not in self.tests:
        fragment = self.fragment(op, op.source)
        for index in range(fragment.values):
            value = self.builder.get(fragment.array, index)
            found = value if found is False else self.builder.pure("or.pred", found, value)
    warps = None if op.warps is None else op.warps.value.data
    self.scalars[op.result] = self.context.any_thread(found, warps)


def _atomic(self: KernelLowering, op: cute.CombineOp) -> None:
    fragment, kind = self.fragment(op, op.source), op.kind.data
    element, scope = str(fragment.type.element), "gpu" if op.scope is None else op.scope.data
    if element not in cute.ATOMICS[kind]:
        raise ValueError(
            f"expected {kind} of {', '.join(cute.ATOMICS[kind])}, got {kind} of {element}"
        )
    number = target(self.context.arch).number
    if element == "bf16" and number < 90:
        raise ValueError(
            f"expected sm_90 or later for an atomic on bf16, got {self.context.arch}; add to a "
            "tensor of f32 (or f16), and convert that in a second kernel"
        )
    _check_scope(self.context, scope)
    name = number_name(fragment.type.element)
    if kind == "add":
        name = {"s64": "u64", "u32": "s32"}.get(name, name)
    elif kind in ("and", "or", "xor"):
        name = f"b{fragment.type.bits}"
    tile = self.tile(op, op.destination)
    reduce_tile(self.context, tile, fragment.array, fragment.tv, kind, name, op.modifiers)


def _fetch(self: KernelLowering, op: cute.FetchOp) -> None:
    source, type_ = self.fragment(op, op.source), cute.fragment_of(op.result)
    if op.destination in self.indexed:
        raise ValueError(
            "expected a tile whose rows follow each other for an atomic that gives what was there, "
            "got rows that a tile numbers"
        )
    _check_scope(self.context, "gpu" if op.scope is None else op.scope.data)
    expected = None if op.expected is None else self.fragment(op, op.expected)
    found = fetch_tile(self.context, op, self.view(op, op.destination), source, expected)
    self.fragments[op.result] = shared_by_copies(self.context, Fragment(type_, found))


def _check_scope(context: Context, scope: str) -> None:
    if scope == "cluster" and target(context.arch).number < 90:
        raise ValueError(
            f'expected sm_90 or later for the scope of a cluster, got {context.arch}; take "gpu"'
        )


HANDLERS: dict[type[Operation], Handler] = {
    cute.FetchOp: _fetch,
    cute.FillOp: _fill,
    cute.GemmOp: _gemm,
    RoundToTf32Op: _round_to_tf32,
    cute.MapOp: _map,
    cute.ReduceOp: _reduce,
    cute.AnyOp: _any,
    cute.CombineOp: _atomic,
}
