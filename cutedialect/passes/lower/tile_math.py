"""Arithmetic on register tiles: fills, matrix multiplies, maps, reductions, atomics."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Attribute, Operation, SSAValue

from cutedialect.atoms import target
from cutedialect.dialects import cute, ptx
from cutedialect.dialects.cute_nvgpu import Sm90MmaType, Sm100MmaType
from cutedialect.dialects.effects import written_by

from . import tensor_memory
from .context import array_class, fail, float_name, pack_factor, register_class
from .copies import reduce_tile
from .elementwise import Fragment, lower_map
from .gemm import lower_gemm
from .indexed_tiles import reduce_rows
from .large_elements import has_large, tested
from .lowering import Handler, KernelLowering
from .reductions import lower_reduce
from .scalar_builder import Scalar
from .wgmma import fresh_accumulator, lower_wgmma


def _fill(self: KernelLowering, op: cute.FillOp) -> None:
    fragment = self.fragment(op, op.fragment)
    value = self.scalars[op.value]
    pack = pack_factor(fragment.type.element)
    constant = self.builder.constant(value)
    if constant == 0:
        fresh = fresh_accumulator(op)
        if fresh is not None:
            self.fresh[fresh.first] = fresh
            if fresh.reader is not None:
                self.unsettled.setdefault(fresh.reader, []).append(fresh)
            return
    if pack > 1:
        if constant is not None:
            bits = 32 // pack
            part = int(constant) & ((1 << bits) - 1)
            value = sum(part << (bits * i) for i in range(pack))
        else:
            if pack == 4:
                low = self.builder.pure("and.b16", value, 255)
                value = self.builder.pure("or.b16", low, self.builder.pure("shl.b16", low, 8))
            value = self.builder.pack(value, value)
    self.context.fill(fragment.array, value)


def _gemm(self: KernelLowering, op: cute.GemmOp) -> None:
    if isinstance(op.atom, Sm100MmaType):
        tensor_memory.multiply(self, op)
        return
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
        acc = self.fragment(op, op.acc)
        lower_wgmma(self.context, op, a, self.view(op, op.b), acc, keeps)
        return
    a, b, acc = (self.fragment(op, each) for each in (op.a, op.b, op.acc))
    lower_gemm(self.context, op, a, b, acc)


def _map(self: KernelLowering, op: cute.MapOp) -> None:
    inputs = [self.fragment(op, each) for each in op.inputs]
    readers = [use.operation for use in op.result.uses]
    if all(isinstance(reader, cute.AnyOp) for reader in readers) and tested(op) is not None:
        found = has_large(self.context, inputs[0])
        if found is not None:
            self.tests[op.result] = found
            return
    copy = _assignment(op)
    target_ = None
    if copy is not None:
        target_ = self.fragments.get(copy.destination)
        if target_ is not None and self.is_touched_between(op, copy, target_):
            target_ = None
        type_ = op.result.type
        if target_ is not None and (
            target_.type != type_ or array_class(target_.array) != register_class(type_.element)
        ):
            target_ = None
    result = lower_map(self.context, op, inputs, self.scalars, target_)
    self.fragments[op.result] = result
    if copy is not None and target_ is not None and result.array is target_.array:
        self.done.add(copy)


def _assignment(op: cute.MapOp) -> cute.CopyOp | None:
    """The copy later in the block that is the only use of a map."""
    uses = list(op.result.uses)
    if len(uses) != 1:
        return None
    copy = uses[0].operation
    if (
        not isinstance(copy, cute.CopyOp)
        or copy.source is not op.result
        or copy.pred is not None
        or copy.parent is not op.parent
    ):
        return None
    return copy


def _reduce(self: KernelLowering, op: cute.ReduceOp) -> None:
    known = _known_parts(op)
    if known is not None and known.result in self.fragments:
        type_ = op.result.type
        self.fragments[op.result] = Fragment(type_, self.fragments[known.result].array)
        return
    self.fragments[op.result] = lower_reduce(
        self.context, op, self.fragment(op, op.source), self.scalars
    )


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
            and _element(known.result) == _element(op.result)
            and _keeps_between(known, op, op.source)
        ):
            return known
    return None


def _element(value: SSAValue) -> Attribute:
    return cute.element_of(value.type)


def _keeps_between(first: Operation, last: Operation, tile: SSAValue) -> bool:
    """Whether `first` comes before `last` in straight code, perhaps in front of branches around it,
    and nothing writes a tile on the way.
    """
    op = last
    while True:
        before = op.prev_op
        while before is not None:
            if before is first:
                return True
            if tile in written_by(before):
                return False
            before = before.prev_op
        around = op.parent_op()
        if not isinstance(around, scf.IfOp):
            return False
        op = around


def _any(self: KernelLowering, op: cute.AnyOp) -> None:
    found: Scalar = False
    if op.source in self.tests:
        found = self.tests[op.source]
    else:
        fragment = self.fragment(op, op.source)
        for index in range(fragment.values):
            value = self.builder.emit(ptx.GetOp(fragment.array, index)).results[0]
            found = value if found is False else self.builder.pure("or.pred", found, value)
    warps = None if op.warps is None else op.warps.value.data
    self.scalars[op.result] = self.context.any_thread(found, warps)


def _atomic(self: KernelLowering, op: cute.AtomicOp) -> None:
    fragment = self.fragment(op, op.source)
    name = float_name(fragment.type.element)
    kind = op.kind.data
    if name in ("s64", "s32") and kind == "add":
        name = name.replace("s64", "u64")
    elif name not in ("s32", "s64") and not (
        kind == "add" and name in ("f16", "bf16", "f32", "f64")
    ):
        raise fail(
            op,
            f"expected add of f16, f32, f64, i32 or i64, or max, min of integers, "
            f"got {kind} of {name}",
        )
    if name == "bf16" and target(self.context.arch).number < 90:
        raise fail(op, f"expected sm_90 or later for an atomic on bf16, got {self.context.arch}")
    if op.destination in self.indexed:
        reduce_rows(self.context, self.indexed[op.destination], fragment, kind, name)
        return
    reduce_tile(
        self.context, self.view(op, op.destination), fragment.array, fragment.tv, kind, name
    )


HANDLERS: dict[type[Operation], Handler] = {
    cute.FillOp: _fill,
    cute.GemmOp: _gemm,
    cute.MapOp: _map,
    cute.ReduceOp: _reduce,
    cute.AnyOp: _any,
    cute.AtomicOp: _atomic,
}
