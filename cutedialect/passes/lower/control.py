"""Loops, branches, and output from a kernel."""

from __future__ import annotations

from collections.abc import Sequence, Set

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation, Region, SSAValue

from cutedialect.dialects import cute, pipeline, ptx
from cutedialect.dialects.cute_nvgpu import Sm90MmaType
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.analysis.trips import CROWDED
from cutedialect.passes.remarks import remark

from .context import float_name, scalar_class
from .lowering import Handler, KernelLowering
from .narrow_floats import to_f32
from .scalar_builder import Scalar

# What counts work items is not negative, so that dividing by a run-time number is a product.
_COUNTS = (cute.ClaimOp, pipeline.ReceiveOp, pipeline.ResponseOp)


def _counts(self: KernelLowering, loop: scf.WhileOp) -> Set[SSAValue]:
    """The values of a loop that are never negative: not in its first trip, and not in one behind a
    trip in which they are not.
    """
    end = loop.after_region.block.last_op
    assert end is not None
    args = loop.after_region.block.args
    found = {
        arg
        for arg, value in zip(args, loop.arguments, strict=True)
        if self.builder.is_nonnegative(self.scalars[value])
    }

    def is_count(value: SSAValue) -> bool:
        if value in found:
            return True
        op = value.owner
        match op:
            case arith.AddiOp():
                # Items are counted without overflow.
                return op.lhs in found and is_count(op.rhs)
            case arith.DivSIOp() | arith.RemSIOp() | arith.MinSIOp():
                return all(is_count(each) for each in op.operands)
            case arith.MaxSIOp():
                return any(is_count(each) for each in op.operands)
            case arith.SelectOp():
                return is_count(op.lhs) and is_count(op.rhs)
            case scf.IfOp():
                ends = [region.block.last_op for region in op.regions]
                number = [each is value for each in op.results].index(True)
                return all(end is not None and is_count(end.operands[number]) for end in ends)
            case _ if value in self.scalars:
                return self.builder.is_nonnegative(self.scalars[value])
            case _:
                return isinstance(op, (*_COUNTS, arith.ExtUIOp))

    while True:
        kept = {
            arg
            for arg, value in zip(args, end.operands, strict=True)
            if arg in found and is_count(value)
        }
        if kept == found:
            return kept
        found = kept


def _for(self: KernelLowering, op: scf.ForOp) -> None:
    if op.iter_args:
        from .structs import for_with_results

        for_with_results(self, op)
        return
    by = self.scalars[op.step]
    step = self.builder.constant(by)
    if step is not None and step <= 0:
        raise ValueError(f"expected a positive step, got {step}")
    low, high = self.scalars[op.lb], self.scalars[op.ub]
    first, end = self.builder.constant(low), self.builder.constant(high)
    if first is not None and end is not None and first >= end:
        return
    body = Block(arg_types=[ptx.reg("b32")])
    self.builder.push(body, repeats=True, is_crowded=CROWDED in op.attributes)
    if self.builder.is_nonnegative(low):
        self.builder.nonnegative.add(body.args[0])
    self.scalars[op.body.block.args[0]] = body.args[0]
    self.run(op.body.block)
    self.builder.pop()
    self.builder.at(op)
    start, stop, by = (self.builder.value(each, "b32") for each in (low, high, by))
    self.builder.emit(ptx.ForOp(start, stop, by if step is None else int(step), body))


def _while(self: KernelLowering, op: scf.WhileOp) -> None:
    """The values of the loop are registers: a first test in front, then one behind each trip."""
    before, after = op.before_region.block, op.after_region.block
    check, end = before.last_op, after.last_op
    if not isinstance(check, scf.ConditionOp) or any(arg.type != i32 for arg in after.args):
        raise ValueError("expected a loop over values of i32")
    assert isinstance(end, scf.YieldOp)
    builder, context = self.builder, self.context
    kept = context.registers("b32", max(1, len(after.args)))

    def test(values: Sequence[Scalar]) -> Scalar:
        """Whether there is a trip, whose values are put into the registers."""
        for arg, value in zip(before.args, values, strict=True):
            self.scalars[arg] = value
        self.run(before)
        for number, value in enumerate(check.args):
            builder.set(kept, number, self.scalars[value])
        return self.scalars[check.condition]

    counts = _counts(self, op)

    def trips() -> None:
        body = Block()
        builder.push(body, repeats=True)
        for number, arg in enumerate(after.args):
            self.scalars[arg] = value = builder.get(kept, number)
            if arg in counts:
                builder.assume_nonnegative(value)
        self.run(after)
        builder.at(op)
        again = test([self.scalars[value] for value in end.operands])
        builder.emit(ptx.AgainOp(builder.value(again, "pred")))
        builder.pop()
        builder.emit(ptx.RepeatOp(body))

    runs = test([self.scalars[value] for value in op.arguments])
    context.when(runs, trips)
    for number, result in enumerate(op.results):
        self.scalars[result] = builder.get(kept, number)


def _if(self: KernelLowering, op: scf.IfOp) -> None:
    """What the sides give are registers that each of them sets."""
    if any(result.type != i32 for result in op.results):
        from .structs import if_with_results

        if_with_results(self, op)
        return
    builder = self.builder
    kept = self.context.registers("b32", max(1, len(op.results)))
    counts = [True for _ in op.results]

    def run(region: Region) -> None:
        self.run(region.block)
        end = region.block.last_op
        for number, value in enumerate(end.operands if end is not None else ()):
            scalar = self.scalars[value]
            counts[number] &= builder.is_nonnegative(scalar)
            builder.set(kept, number, scalar)

    otherwise = (lambda: run(op.false_region)) if op.false_region.blocks else None
    is_rare = _is_exception(op.cond)
    self.context.when(self.scalars[op.cond], lambda: run(op.true_region), otherwise, is_rare)
    for number, result in enumerate(op.results):
        self.scalars[result] = value = builder.get(kept, number)
        if counts[number]:
            builder.assume_nonnegative(value)


def _is_exception(condition: SSAValue) -> bool:
    """Whether a condition is what some element of a tile may be, in the role that knows it or in
    one that is told.
    """
    op = condition.owner
    is_told = isinstance(op, arith.CmpiOp) and isinstance(op.lhs.owner, pipeline.ReceiveOp)
    return is_told or isinstance(op, cute.AnyOp)


def _printf(self: KernelLowering, op: cute.PrintfOp) -> None:
    builder = self.builder
    args: list[SSAValue] = []
    for arg in op.args:
        name = float_name(arg.type)
        value, cls = self.scalars[arg], scalar_class(arg.type)
        if name in ("f16", "bf16"):
            value, cls = to_f32(builder, value, name), "f32"
        elif cls == "pred":
            value, cls = builder.pure("selp.b32", 1, 0, value), "b32"
        elif cls == "b16":
            value, cls = builder.pure(f"cvt.s32.s{8 if name == 's8' else 16}", value), "b32"
        args.append(builder.value(value, cls))
    if any(isinstance(each.atom, Sm90MmaType) for each in ops_of(self.kernel, cute.GemmOp)):
        why = "printf is a call, around which ptxas waits for every wgmma of the kernel (C7510)"
        remark("convert-to-ptx", op, why)
    print_them = ptx.PrintfOp(op.format.data, args)
    first = builder.equal(builder.thread_index(), 0)
    self.context.when(first, lambda: builder.emit(print_them))


def _assert(self: KernelLowering, op: cute.AssertOp) -> None:
    builder, context = self.builder, self.context

    def by_one_thread() -> None:
        first = builder.equal(builder.thread_index(), 0)
        context.when(first, lambda: builder.emit(ptx.FailOp(op.message.data)))

    fails = builder.pure("not.pred", self.scalars[op.condition])
    context.when(fails, by_one_thread, is_rare=True)


HANDLERS: dict[type[Operation], Handler] = {
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.WhileOp: _while,
    scf.ConditionOp: lambda self, op: None,
    scf.YieldOp: lambda self, op: None,
    cute.PrintfOp: _printf,
    cute.AssertOp: _assert,
}
