"""CTAs that share work: who takes the next work item, and how the last of those that work on one
result knows that the others are done.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import I64, IntegerAttr, StringAttr, i1, i32
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, opt_operand_def, prop_def, result_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from cutedialect.dialects.checks import check
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import ALL, Effects

from .types import FragmentType, MemRefType

# What elements of several CTAs are combined by.
_KINDS = ("add", "mul", "max", "min")


@irdl_op_definition
class LastArrivalOp(IRDLOperation):
    """Count the CTA, or the role, that gets here; whether it is the last of `total`.

    What those before wrote to global memory, the last one reads behind this op (release and acquire
    at gpu scope, PTX ISA 8.8). The counter starts at 0, and the last one leaves 0; one of a `total`
    of 1 is the last and does not count, so that others may count there meanwhile. Nobody waits for
    anybody, so the CTAs need not run at one time. Threads meet here where `total` is above 1: where
    it may be 1, they do for what CTAs share, global memory, and not for shared memory.

    Example:

        cute.kernel @k(%counters: !cute.memref<i32, gmem, align<4>, "(?):(1)">, %i: i32, %n: i32) {
          %last = cute.last_arrival %counters[%i] of %n : !cute.memref<i32, gmem, align<4>, "(?):(1)">
        }
    """

    name = "cute.last_arrival"
    counters = operand_def(MemRefType)
    index = operand_def(i32)
    total = operand_def(i32)
    result = result_def(i1)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$counters `[` $index `]` `of` $total attr-dict `:` type($counters)"

    def __init__(self, counters: SSAValue, index: SSAValue, total: SSAValue) -> None:
        super().__init__(operands=[counters, index, total], result_types=[i1])

    def effects(self) -> Effects:
        owner = self.total.owner
        value = owner.value if isinstance(owner, ConstantOp) else None
        is_shared = isinstance(value, IntegerAttr) and value.value.data > 1
        return Effects(meets=ALL, shows="" if is_shared else "gmem", orders=True)

    def verify_(self) -> None:
        type_ = self.counters.type
        assert isinstance(type_, MemRefType)
        fits = type_.element == i32 and type_.space == "gmem" and type_.stride == (1,)
        check(fits, f"expected counters of i32 in gmem, one behind the other, got {type_}")


@irdl_op_definition
class ClusterSumOp(IRDLOperation):
    """Add up the register tiles of `count` CTAs, which are the cluster, in the order of their ranks.
    The CTA of rank 0 has the sum and gets true; the others' tiles are as before.

    Every CTA of the cluster comes here equally often. The parts travel through distributed shared
    memory (`st.async`, PTX ISA 9.7.9.12), of which the first CTA has room for `count - 1` tiles;
    the barriers by which they do are those of the exchange.

    Example:

        cute.kernel @k() {
          %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,8)">
          %first = cute.cluster_sum %acc of 2 : !cute.fragment<f32, "(64,8)">
          %x = pipeline.exchange {readers = 1 : i32} : !pipeline.exchange
          %again = cute.cluster_sum %acc of 2 via %x : !pipeline.exchange : !cute.fragment<f32, "(64,8)">
        }
    """

    name = "cute.cluster_sum"
    acc = operand_def(FragmentType)
    exchange = opt_operand_def()
    count = prop_def(IntegerAttr[I64])
    result = result_def(i1)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$acc `of` $count (`via` $exchange^ `:` type($exchange))? attr-dict `:` type($acc)"
    )

    def __init__(self, acc: SSAValue, count: int) -> None:
        super().__init__(
            operands=[acc, None], result_types=[i1], properties={"count": IntegerAttr(count, 64)}
        )

    @property
    def bytes(self) -> int:
        """Bytes of shared memory in which the first CTA gets the tiles of the others."""
        type_ = self.acc.type
        assert isinstance(type_, FragmentType)
        return (self.count.value.data - 1) * prod(type_.shape) * type_.bits // 8

    def effects(self) -> Effects:
        return Effects(reads=(self.acc,), writes=(self.acc,), meets=ALL, orders=True)

    def verify_(self) -> None:
        type_ = self.acc.type
        assert isinstance(type_, FragmentType)
        check(type_.bits == 32, f"expected a tile with elements of 32 bits, got {type_}")
        count = self.count.value.data
        check(count >= 2, f"expected a count of 2 or more, got {count}")


@irdl_op_definition
class ClusterScatterOp(IRDLOperation):
    """Add up the register tiles of `count` CTAs, which are the cluster, in the order of their ranks,
    and leave each CTA its part of the sum: of as many equal parts of the columns the one with the
    number of its rank.

    Every CTA of the cluster comes here equally often. The parts travel through distributed shared
    memory (`st.async`, PTX ISA 9.7.9.12), of which each CTA has room for a tile; the barriers by
    which they do are those of the exchange.

    Example:

        cute.kernel @k() {
          %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,32)">
          %part = cute.cluster_scatter %acc of 2 : !cute.fragment<f32, "(64,32)"> -> !cute.fragment<f32, "(64,16)">
        }
    """

    name = "cute.cluster_scatter"
    acc = operand_def(FragmentType)
    exchange = opt_operand_def()
    count = prop_def(IntegerAttr[I64])
    result = result_def(FragmentType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$acc `of` $count (`via` $exchange^ `:` type($exchange))? attr-dict"
        " `:` type($acc) `->` type($result)"
    )

    def __init__(self, acc: SSAValue, count: int) -> None:
        type_ = acc.type
        assert isinstance(type_, FragmentType)
        rows, columns = type_.shape
        super().__init__(
            operands=[acc, None],
            result_types=[FragmentType.get(type_.element, (rows, columns // count))],
            properties={"count": IntegerAttr(count, 64)},
        )

    @property
    def bytes(self) -> int:
        """Bytes of shared memory in which a CTA gets its part from all."""
        type_ = self.acc.type
        assert isinstance(type_, FragmentType)
        return prod(type_.shape) * type_.bits // 8

    def effects(self) -> Effects:
        return Effects(reads=(self.acc,), meets=ALL, orders=True)

    def verify_(self) -> None:
        type_, made = self.acc.type, self.result.type
        assert isinstance(type_, FragmentType)
        assert isinstance(made, FragmentType)
        check(
            type_.bits == 32 and len(type_.shape) == 2,
            f"expected a tile of rank 2 with elements of 32 bits, got {type_}",
        )
        count = self.count.value.data
        check(count >= 2, f"expected a count of 2 or more, got {count}")
        rows, columns = type_.shape
        wanted = rows, columns // count
        check(
            columns % count == 0 and (made.element, made.shape) == (type_.element, wanted),
            f"expected a result with one of {count} equal parts of the columns of {type_}, got "
            f"{made}",
        )


@irdl_op_definition
class ClusterRankOp(IRDLOperation):
    """The place of this CTA among the `count` neighbors that are its cluster.

    Example:

        cute.kernel @k() {
          %rank = cute.cluster_rank of 4
        }
    """

    name = "cute.cluster_rank"
    count = prop_def(IntegerAttr[I64])
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "`of` $count attr-dict"

    def __init__(self, count: int) -> None:
        super().__init__(result_types=[i32], properties={"count": IntegerAttr(count, 64)})

    def verify_(self) -> None:
        count = self.count.value.data
        check(count >= 2, f"expected a count of 2 or more, got {count}")


@irdl_op_definition
class ClusterBoundOp(IRDLOperation):
    """The largest (`max`) or least (`min`) of a number among the CTAs of a cluster that lie one
    below the other, of those whose work item has a tile: with it loops run alike in all of them.

    `cute-tile` computes it for each from its coordinates; nothing travels between CTAs.

    Example:

        cute.kernel @k(%n: i32) {
          %end = cute.cluster_bound "max", %n
        }
    """

    name = "cute.cluster_bound"
    kind = prop_def(StringAttr)
    source = operand_def(i32)
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$kind `,` $source attr-dict"

    def __init__(self, kind: str, source: SSAValue) -> None:
        super().__init__(
            operands=[source], result_types=[i32], properties={"kind": StringAttr(kind)}
        )

    def verify_(self) -> None:
        kind = self.kind.data
        check(kind in ("max", "min"), f"expected max or min, got '{kind}'")


@irdl_op_definition
class ClusterReduceOp(IRDLOperation):
    """Combine the elements of one in each of `count` CTAs, which are the cluster, in the order of
    their ranks; all of them get the result.

    Every CTA of the cluster comes here equally often. The elements travel through distributed
    shared memory (`st.async`, PTX ISA 9.7.9.12), counted by the barrier of the exchange.

    Example:

        cute.kernel @k() {
          %part = cute.alloc_fragment : !cute.fragment<f32, "(1,1)">
          %total = cute.cluster_reduce "add", %part of 4 : !cute.fragment<f32, "(1,1)"> -> !cute.fragment<f32, "(1,1)">
        }
    """

    name = "cute.cluster_reduce"
    kind = prop_def(StringAttr)
    source = operand_def(FragmentType)
    exchange = opt_operand_def()
    count = prop_def(IntegerAttr[I64])
    result = result_def(FragmentType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$kind `,` $source `of` $count (`via` $exchange^ `:` type($exchange))? attr-dict"
        " `:` type($source) `->` type($result)"
    )

    def __init__(self, kind: str, source: SSAValue, count: int) -> None:
        super().__init__(
            operands=[source, None],
            result_types=[source.type],
            properties={"kind": StringAttr(kind), "count": IntegerAttr(count, 64)},
        )

    def effects(self) -> Effects:
        return Effects(reads=(self.source,), orders=True)

    def verify_(self) -> None:
        type_, kind, count = self.source.type, self.kind.data, self.count.value.data
        assert isinstance(type_, FragmentType)
        check(kind in _KINDS, f"expected a reduction ({', '.join(_KINDS)}), got '{kind}'")
        # Every thread holds the one element, in whatever modes its layout counts threads.
        result = self.result.type
        check(
            isinstance(result, FragmentType)
            and (result.shape, result.element) == (type_.shape, type_.element),
            f"expected a result of {type_}, got {result}",
        )
        check(
            type_.bits == 32 and prod(type_.shape) == 1,
            f"expected a tile of one element of 32 bits, got {type_}",
        )
        check(count >= 2, f"expected a count of 2 or more, got {count}")


@irdl_op_definition
class ClaimOp(IRDLOperation):
    """The next work item of a CTA: a number that no other CTA of the launch gets, the same for all
    threads (or for those of the role). CTAs begin with the item of their block index; when `total`
    items are gone each gets a number of at least `total`, once, and claims no more.

    The counter starts at 0 and is 0 again when all CTAs have claimed their last (`atom.inc`, PTX ISA
    9.7.13.5), so that the next launch finds it as this one did.

    Example:

        cute.kernel @k(%claims: !cute.memref<i32, gmem, align<4>, "(1):(1)">, %n: i32) {
          %next = cute.claim %claims of %n : !cute.memref<i32, gmem, align<4>, "(1):(1)">
        }
    """

    name = "cute.claim"
    counter = operand_def(MemRefType)
    total = operand_def(i32)
    result = result_def(i32)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$counter `of` $total attr-dict `:` type($counter)"

    def __init__(self, counter: SSAValue, total: SSAValue) -> None:
        super().__init__(operands=[counter, total], result_types=[i32])

    def effects(self) -> Effects:
        return Effects(orders=True, by_every_role=True)

    def verify_(self) -> None:
        type_ = self.counter.type
        assert isinstance(type_, MemRefType)
        fits = type_.element == i32 and type_.space == "gmem" and type_.rank == 1
        check(fits, f"expected a counter of i32 in gmem, got {type_}")


@irdl_op_definition
class CancelLaunchOp(IRDLOperation):
    """The next work item of a CTA: that of a CTA of the grid which has not begun, and whose launch
    is canceled; `total` where all have begun, after which a CTA asks no more. Of a cluster all CTAs
    come here equally often and get the same number, counted in clusters (PTX ISA 9.7.13.17).

    The grid has a CTA (cluster) for each of the `total` items, so that those which begin before
    another one cancels them do their own.

    Example:

        cute.kernel @k(%n: i32) {
          %next = cute.cancel_launch of %n
        }
    """

    name = "cute.cancel_launch"
    total = operand_def(i32)
    result = result_def(i32)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "`of` $total attr-dict"

    def __init__(self, total: SSAValue) -> None:
        super().__init__(operands=[total], result_types=[i32])

    def effects(self) -> Effects:
        return Effects(orders=True, by_every_role=True)
