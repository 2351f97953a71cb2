"""Rings, where a role stands in them, and what producer and consumer of a ring say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, UnitAttr, i1, i32, i64
from xdsl.ir import Data, Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    irdl_attr_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.checks import check
from cutedialect.dialects.cute import MemRefType, StageOp
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import ALLOCATES, ORDERS, Effects

KINDS = ("tma", "cp_async", "threads", "tcgen05", "tmem")
SIDES = ("producer", "consumer")
# How threads alone fill the stages of a ring.
_WRITTEN = ({"threads"}, {"tmem"}, {"threads", "tmem"})
# Bits of the counts of an mbarrier (PTX ISA 9.7.13.15.1).
_MOST_COUNTED = (1 << 20) - 1
_FORMAT = "$ring `at` $state attr-dict `:` type($ring) `,` type($state)"


class _StagesType(Data[int], TypeAttribute):
    """A type with one parameter, the number of stages."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> int:
        with parser.in_angle_brackets():
            return parser.parse_integer(allow_boolean=False, allow_negative=False)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.data))

    def verify(self) -> None:
        if not 1 <= self.data <= 64:
            raise VerifyException(f"expected 1 to 64 stages, got {self.data}")


@irdl_attr_definition
class RingType(_StagesType):
    """A ring with so many stages: `!pipeline.ring<3>`."""

    name = "pipeline.ring"


@irdl_attr_definition
class StateType(_StagesType):
    """Where a role stands in a ring, stage and phase: `!pipeline.state<3>`. It is mutable."""

    name = "pipeline.state"


@irdl_attr_definition
class BarrierType(ParametrizedAttribute, TypeAttribute):
    """The barrier that tells when a stage is full: `!pipeline.barrier`."""

    name = "pipeline.barrier"


def is_whole(op: Operation) -> bool:
    """Whether an op has the operands, properties and regions that its definition asks for.

    A verifier that looks at other ops may come to them before they are verified themselves.
    """
    try:
        op.get_irdl_definition().verify(op)  # pyright: ignore[reportAttributeAccessIssue]
    except VerifyException:
        return False
    return True


def widest_groups(groups: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Groups of (CTAs, step between ranks) without those that lie in another one, so that a CTA
    that several copies of a stage reach is told once that the stage is free.

    >>> widest_groups([(2, 1), (2, 2)]), widest_groups([(4, 1), (2, 1), (4, 1)])
    (((2, 1), (2, 2)), ((4, 1),))
    """
    distinct = tuple(dict.fromkeys(groups))
    ranks = {group: {index * group[1] for index in range(group[0])} for group in distinct}
    return tuple(
        group for group in distinct if not any(ranks[group] < other for other in ranks.values())
    )


def sharing_ctas(groups: Iterable[tuple[int, int]]) -> int:
    """How many CTAs write a stage of groups that meet in one CTA alone: that one counts once.

    >>> sharing_ctas([]), sharing_ctas([(2, 1), (4, 2)])
    (1, 5)
    """
    return 1 + sum(extent - 1 for extent, _ in groups)


@irdl_op_definition
class CreateOp(IRDLOperation):
    """Make a ring.

    Every stage has two mbarriers (PTX ISA 9.7.13.15). `full` completes its phase when `producers`
    arrivals and, kind `tma`, `bytes` of transactions came; `empty` when `consumers` arrivals came.
    A stage may be filled in several ways, such as `tma+cp_async`: one thread arrives for TMA, every
    thread when its `cp.async` are done, one lane of each warp for ordinary stores, for `tcgen05`
    the commit behind the multiplies into tensor memory, and for `tmem` one lane of each warp whose
    stores to tensor memory are done (`threads+tmem`: once for both). `peers` lists groups `n, s` of
    CTAs of the cluster (n ranks, s apart), none inside of another, that write to each other's
    stages: a stage is released in all of them. A ring with `pair` is one of two CTAs (ranks 2i and
    2i + 1) whose multiplies the even one issues: operands of both signal the full barrier of the
    even one, which expects the bytes of both, and a commit releases them in both; so does what threads of
    both write for it, to shared or tensor memory. A commit fills an accumulator in both, and the
    readers of both release it in the even one.
    A ring that is `led` has its stages filled in all CTAs of the cluster by the first one, to which
    readers release them; each CTA expects its own bytes. With 0 `consumers` a ring has no `empty`
    barriers: who fills a stage holds the same stage of another ring, and so does who reads it.

    Example:

        cute.kernel @k() {
          %p = pipeline.create {kind = "cp_async", producers = 32 : i32, consumers = 4 : i32} : !pipeline.ring<3>
          %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
          %r = pipeline.create {kind = "tma+cp_async", producers = 129 : i32, consumers = 8 : i32, bytes = 16384 : i32} : !pipeline.ring<4>
          %t = pipeline.create {kind = "tcgen05", producers = 1 : i32, consumers = 8 : i32, pair} : !pipeline.ring<2>
        }
    """

    name = "pipeline.create"
    kind = prop_def(StringAttr)
    producers = prop_def(IntegerAttr)
    consumers = prop_def(IntegerAttr)
    bytes = opt_prop_def(IntegerAttr)
    peers = opt_prop_def(DenseArrayBase)
    pair = opt_prop_def(UnitAttr)
    led = opt_prop_def(UnitAttr)
    ring = result_def(RingType)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict `:` type($ring)"

    def __init__(
        self,
        kind: str,
        stages: int,
        producers: int,
        consumers: int,
        bytes: int | None = None,
        peers: tuple[tuple[int, int], ...] = (),
        pair: bool = False,
        led: bool = False,
    ) -> None:
        def number(value: int | None) -> IntegerAttr | None:
            return None if value is None else IntegerAttr(value, i32)

        flat = [each for pair in peers for each in pair]
        super().__init__(
            properties={
                "kind": StringAttr(kind),
                "producers": number(producers),
                "consumers": number(consumers),
                "bytes": number(bytes),
                "peers": DenseArrayBase.from_list(i64, flat) if flat else None,
                "pair": UnitAttr() if pair else None,
                "led": UnitAttr() if led else None,
            },
            result_types=[RingType(stages)],
        )

    @property
    def stages(self) -> int:
        """How many stages it has."""
        type_ = self.ring.type
        assert isinstance(type_, RingType)
        return type_.data

    @property
    def is_paired(self) -> bool:
        """Whether two CTAs share the barriers of its stages."""
        return self.pair is not None

    @property
    def is_written(self) -> bool:
        """Whether threads alone fill its stages, in shared or tensor memory."""
        return set(self.kinds) in _WRITTEN

    @property
    def tells_readers(self) -> bool:
        """Whether a commit behind its reads tells both CTAs of a pair, each of which fills it."""
        return self.is_paired and "tcgen05" not in self.kinds

    @property
    def is_led(self) -> bool:
        """Whether the first CTA of the cluster fills its stages in all of them."""
        return self.led is not None

    @property
    def is_released(self) -> bool:
        """Whether its own barriers tell that a stage is empty."""
        return self.consumers.value.data > 0

    @property
    def is_in_tensor_memory(self) -> bool:
        """Whether its barriers order `tcgen05` instructions of both sides."""
        return not {"tcgen05", "tmem"}.isdisjoint(self.kinds)

    @property
    def is_shared(self) -> bool:
        """Whether other CTAs of the cluster signal its barriers."""
        return bool(self.peer_groups) or self.is_paired or self.is_led

    @property
    def kinds(self) -> tuple[str, ...]:
        """The ways in which its stages are filled."""
        return tuple(self.kind.data.split("+"))

    @property
    def peer_groups(self) -> tuple[tuple[int, int], ...]:
        """(CTAs, step between ranks) of each group that shares stages."""
        flat = () if self.peers is None else tuple(self.peers.get_values())
        return tuple(zip(flat[::2], flat[1::2], strict=True))  # type: ignore[arg-type]

    def effects(self) -> Effects:
        return ALLOCATES

    def verify_(self) -> None:
        self._verify_kinds()
        self._verify_counts()
        check(
            not self.is_paired or set(self.kinds) in ({"tma"}, {"tcgen05"}, *_WRITTEN),
            "expected kind tma or tcgen05, or what threads write, of a ring of a CTA pair, got "
            f"{self.kind.data}",
        )
        is_plain = self.kind.data == "tma" and not self.is_paired and self.peers is None
        check(
            not self.is_led or is_plain,
            "expected kind tma, no pair and no peers of a ring that is led",
        )
        peers = () if self.peers is None else self.peers.get_values()
        check(
            len(peers) % 2 == 0,
            f"expected peers in pairs of CTAs and their distance, got {len(peers)} numbers",
        )
        # Imported here: it reads this class, the roles that arrive and the copies that come.
        from .balance import verify_ring

        verify_ring(self)

    def _verify_kinds(self) -> None:
        kinds = self.kinds
        for kind in kinds:
            check(kind in KINDS, f"expected kind {' or '.join(KINDS)}, got '{kind}'")
        check(
            list(kinds) == [kind for kind in KINDS if kind in kinds],
            f"expected kinds once each in the order {', '.join(KINDS)}, got {self.kind.data}",
        )

    def _verify_counts(self) -> None:
        check(
            "tma" not in self.kinds or self.bytes is not None,
            "expected the bytes of a stage of a tma ring, got none",
        )
        most = _MOST_COUNTED
        for name, least in (("producers", 1), ("consumers", 0)):
            count = getattr(self, name).value.data
            check(least <= count <= most, f"expected {least} to {most} {name}, got {count}")
        if self.bytes is not None:
            size = self.bytes.value.data
            check(1 <= size <= most, f"expected 1 to {most} bytes for each stage, got {size}")


@irdl_op_definition
class StateOp(IRDLOperation):
    """A role's place in a ring before its first stage. `producer` finds the first round empty.

    Example:

        cute.kernel @k() {
          %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
          %s = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
        }
    """

    name = "pipeline.state"
    side = prop_def(StringAttr)
    ring = operand_def(RingType)
    state = result_def(StateType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$side $ring attr-dict `:` type($ring) `->` type($state)"

    def __init__(self, side: str, ring: SSAValue) -> None:
        stages = ring.type
        assert isinstance(stages, RingType)
        super().__init__(
            operands=[ring],
            properties={"side": StringAttr(side)},
            result_types=[StateType(stages.data)],
        )

    def effects(self) -> Effects:
        return ALLOCATES

    def verify_(self) -> None:
        if self.side.data not in SIDES:
            raise VerifyException(f"expected {' or '.join(SIDES)}, got '{self.side.data}'")
        ring, state = self.ring.type, self.state.type
        assert isinstance(ring, RingType)
        assert isinstance(state, StateType)
        if ring.data != state.data:
            raise VerifyException(f"expected a state of {ring.data} stages, got {state.data}")


@irdl_op_definition
class IndexOp(IRDLOperation):
    """The stage at which a state stands.

    Example:

        cute.kernel @k() {
          %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
          %s = pipeline.state "consumer" %q : !pipeline.ring<4> -> !pipeline.state<4>
          %i = pipeline.index %s : !pipeline.state<4>
        }
    """

    name = "pipeline.index"
    state = operand_def(StateType)
    index = result_def(i32)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$state attr-dict `:` type($state)"

    def __init__(self, state: SSAValue) -> None:
        super().__init__(operands=[state], result_types=[i32])

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        stages = self.state.type
        assert isinstance(stages, StateType)
        for use in self.index.uses:
            stage = use.operation
            if isinstance(stage, StageOp) and use.index == 1 and is_whole(stage):
                buffers = stage.source.type
                assert isinstance(buffers, MemRefType)
                if buffers.shape[-1] != stages.data:
                    raise VerifyException(
                        f"expected a buffer of {stages.data} stages as the ring has, got "
                        f"{buffers.shape[-1]}"
                    )


@irdl_op_definition
class AdvanceOp(IRDLOperation):
    """Go on to the next stage, or by so many; after the last one the phase changes.

    Example:

        cute.kernel @k() {
          %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
          %s = pipeline.state "consumer" %q : !pipeline.ring<4> -> !pipeline.state<4>
          pipeline.advance %s : !pipeline.state<4>
          %n = arith.constant 7 : i32
          pipeline.advance %s by %n : !pipeline.state<4>
        }
    """

    name = "pipeline.advance"
    state = operand_def(StateType)
    count = opt_operand_def(i32)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$state (`by` $count^)? attr-dict `:` type($state)"

    def __init__(self, state: SSAValue, count: SSAValue | None = None) -> None:
        super().__init__(operands=[state, count])

    def effects(self) -> Effects:
        return ORDERS


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """The full barrier of the stage at which a state stands: where a TMA load signals.

    Example:

        cute.kernel @k() {
          %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
          %s = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
          %b = pipeline.barrier %q at %s : !pipeline.ring<4>, !pipeline.state<4>
        }
    """

    name = "pipeline.barrier"
    ring = operand_def(RingType)
    state = operand_def(StateType)
    barrier = result_def(BarrierType)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$ring `at` $state attr-dict `:` type($ring) `,` type($state)"

    def __init__(self, ring: SSAValue, state: SSAValue) -> None:
        super().__init__(operands=[ring, state], result_types=[BarrierType()])

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        check_state(self.ring, self.state, "producer")


def check_state(ring: SSAValue, state: SSAValue, side: str) -> None:
    """Refuse a state of another ring or of the other side."""
    place = state.owner
    if not isinstance(place, StateOp) or not is_whole(place):
        return
    if place.ring is not ring:
        raise VerifyException("expected a state of this ring, got one of another ring")
    if place.side.data != side:
        raise VerifyException(f"expected a {side}'s state, got a {place.side.data}'s")


class _StageOp(IRDLOperation):
    """What one side of a ring says of the stage at which its state stands."""

    SIDE: ClassVar[str]
    ring = operand_def(RingType)
    state = operand_def(StateType)
    assembly_format = _FORMAT

    def __init__(self, ring: SSAValue, state: SSAValue) -> None:
        super().__init__(operands=[ring, state])

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        check_state(self.ring, self.state, self.SIDE)


@irdl_op_definition
class ProducerAcquireOp(_StageOp):
    """Before the first write of a stage: wait until its readers are done with it.

    Example:

        cute.kernel @k() {
          %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
          %s = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
          pipeline.producer_acquire %q at %s : !pipeline.ring<4>, !pipeline.state<4>
          pipeline.producer_commit %q at %s : !pipeline.ring<4>, !pipeline.state<4>
        }
    """

    name = "pipeline.producer_acquire"
    SIDE: ClassVar[str] = "producer"

    def verify_(self) -> None:
        super().verify_()
        _demand(self, ProducerCommitOp, "a producer_commit of the ring after the acquire")
        op = self.next_op
        while op is not None and not _is_of(op, ProducerCommitOp, self.ring):
            if _is_of(op, ProducerAcquireOp, self.ring):
                raise VerifyException(
                    "expected a producer_commit of the ring after the acquire, got another acquire"
                )
            op = op.next_op


@irdl_op_definition
class ExpectOp(_StageOp):
    """Behind the acquire of a stage that TMA fills: the one arrival at `full`, which says how many
    bytes of transactions are to come; in a pair of CTAs the leader says it for both.

    Example:

        cute.kernel @k() {
          %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
          %s = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
          pipeline.producer_acquire %q at %s : !pipeline.ring<4>, !pipeline.state<4>
          pipeline.expect %q at %s : !pipeline.ring<4>, !pipeline.state<4>
          pipeline.producer_commit %q at %s : !pipeline.ring<4>, !pipeline.state<4>
        }
    """

    name = "pipeline.expect"
    SIDE: ClassVar[str] = "producer"

    def verify_(self) -> None:
        super().verify_()
        made = self.ring.owner
        if isinstance(made, CreateOp) and made.bytes is None:
            raise VerifyException(f"expected a ring of kind tma, got {made.kind.data}")


@irdl_op_definition
class DrainOp(_StageOp):
    """At a producer's end: wait until every stage is empty. Others, or the tensor core, arrive at
    these barriers, so that the CTA has to outlive the last of them.

    Example:

        cute.kernel @k() {
          %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
          %s = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
          pipeline.drain %q at %s : !pipeline.ring<4>, !pipeline.state<4>
        }
    """

    name = "pipeline.drain"
    SIDE: ClassVar[str] = "producer"


@irdl_op_definition
class ProducerCommitOp(IRDLOperation):
    """After the last write of a stage: it is on its way, and `full` learns when it is there.

    What CTA pairs multiply is told to both by one multicast commit. Where nothing has been
    multiplied, there is nothing that it could track, and the thread arrives in both instead:
    `multiplied %p` says whether there is, and is left out where there always is.

    Example:

        cute.kernel @k(%some: i1) {
          %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
          %s = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
          pipeline.producer_acquire %q at %s : !pipeline.ring<4>, !pipeline.state<4>
          pipeline.producer_commit %q at %s : !pipeline.ring<4>, !pipeline.state<4>
          %t = pipeline.create {kind = "tcgen05", producers = 1 : i32, consumers = 8 : i32, pair} : !pipeline.ring<2>
          %o = pipeline.state "producer" %t : !pipeline.ring<2> -> !pipeline.state<2>
          pipeline.producer_acquire %t at %o : !pipeline.ring<2>, !pipeline.state<2>
          pipeline.producer_commit %t at %o multiplied %some : !pipeline.ring<2>, !pipeline.state<2>
        }
    """

    name = "pipeline.producer_commit"
    ring = operand_def(RingType)
    state = operand_def(StateType)
    multiplied = opt_operand_def(i1)
    assembly_format = (
        "$ring `at` $state (`multiplied` $multiplied^)? attr-dict `:` type($ring) `,` type($state)"
    )

    def __init__(self, ring: SSAValue, state: SSAValue, multiplied: SSAValue | None = None) -> None:
        super().__init__(operands=[ring, state, multiplied])

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        check_state(self.ring, self.state, "producer")
        _demand(self, ProducerAcquireOp, "a producer_acquire before the commit")
        made = self.ring.owner
        is_of_pair = isinstance(made, CreateOp) and made.is_paired and "tcgen05" in made.kinds
        if self.multiplied is not None and isinstance(made, CreateOp) and not is_of_pair:
            raise VerifyException(
                "expected whether a pair has multiplied only for its ring in tensor memory, got "
                f"one of kind {made.kind.data}"
            )


@irdl_op_definition
class ConsumerWaitOp(_StageOp):
    """Before the first read of a stage: wait until it is full.

    Example:

        cute.kernel @k() {
          %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
          %s = pipeline.state "consumer" %q : !pipeline.ring<4> -> !pipeline.state<4>
          pipeline.consumer_wait %q at %s : !pipeline.ring<4>, !pipeline.state<4>
          pipeline.consumer_release %q at %s : !pipeline.ring<4>, !pipeline.state<4>
        }
    """

    name = "pipeline.consumer_wait"
    SIDE: ClassVar[str] = "consumer"

    def verify_(self) -> None:
        super().verify_()
        _demand(self, ConsumerReleaseOp, "a consumer_release after the wait")


@irdl_op_definition
class ConsumerReleaseOp(IRDLOperation):
    """After the last read of a stage has completed: its producer may write it again.

    With `back` it is the stage so many before the one at which the state stands: readers that are
    still at work on this one are done with that one. With `if %p` nothing is released unless the
    (role-uniform) condition holds. With `commits` the tensor core reads the stage, and releases it
    when all that the thread has started is done (`tcgen05.commit`, PTX ISA 9.7.16.11.1); what CTA
    pairs read in both of them, unless nothing is `multiplied` (see `pipeline.producer_commit`).

    Example:

        cute.kernel @k(%later: i1) {
          %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
          %s = pipeline.state "consumer" %q : !pipeline.ring<4> -> !pipeline.state<4>
          pipeline.consumer_wait %q at %s : !pipeline.ring<4>, !pipeline.state<4>
          pipeline.consumer_release %q at %s if %later {back = 1 : i32} : !pipeline.ring<4>, !pipeline.state<4>
          pipeline.consumer_release %q at %s {commits} : !pipeline.ring<4>, !pipeline.state<4>
          %r = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 1 : i32, bytes = 49152 : i32, pair} : !pipeline.ring<2>
          %u = pipeline.state "consumer" %r : !pipeline.ring<2> -> !pipeline.state<2>
          pipeline.consumer_wait %r at %u : !pipeline.ring<2>, !pipeline.state<2>
          pipeline.consumer_release %r at %u multiplied %later {commits} : !pipeline.ring<2>, !pipeline.state<2>
        }
    """

    name = "pipeline.consumer_release"
    ring = operand_def(RingType)
    state = operand_def(StateType)
    pred = opt_operand_def(i1)
    multiplied = opt_operand_def(i1)
    back = opt_prop_def(IntegerAttr)
    commits = opt_prop_def(UnitAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$ring `at` $state (`if` $pred^)? (`multiplied` $multiplied^)? attr-dict `:` type($ring) "
        "`,` type($state)"
    )

    def __init__(
        self,
        ring: SSAValue,
        state: SSAValue,
        pred: SSAValue | None = None,
        back: int | None = None,
        commits: bool = False,
        multiplied: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[ring, state, pred, multiplied],
            properties={
                "back": None if back is None else IntegerAttr(back, i32),
                "commits": UnitAttr() if commits else None,
            },
        )

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        check_state(self.ring, self.state, "consumer")
        _demand(self, ConsumerWaitOp, "a consumer_wait before the release")
        stages = self.ring.type
        assert isinstance(stages, RingType)
        if self.back is not None and not 0 <= self.back.value.data < stages.data:
            raise VerifyException(
                f"expected a stage fewer than {stages.data} back, got {self.back.value.data}"
            )
        if self.commits is not None and self.back is not None:
            raise VerifyException("expected no back with commits, got one")
        made = self.ring.owner
        tells_pair = self.commits is not None and isinstance(made, CreateOp) and made.tells_readers
        if self.multiplied is not None and isinstance(made, CreateOp) and not tells_pair:
            raise VerifyException(
                "expected whether a pair has multiplied only where a commit releases a stage in "
                "both of its CTAs, got it elsewhere"
            )


def _is_of(op: Operation, kind: type[ProducerAcquireOp | ProducerCommitOp], ring: SSAValue) -> bool:
    return isinstance(op, kind) and op.ring is ring


def _demand(
    op: ProducerAcquireOp | ProducerCommitOp | ConsumerWaitOp | ConsumerReleaseOp,
    kind: type[Operation],
    what: str,
) -> None:
    """Refuse half of a pair: another op has to be `kind`, with the same state or, where a stage is
    passed on (an operand is written over the accumulator that it is made of), of the same ring. A
    ring without consumers has no release, and nothing to acquire.
    """
    made = op.ring.owner
    if isinstance(made, CreateOp) and made.consumers.value.data == 0:
        return
    if not any(isinstance(use.operation, kind) for use in (*op.state.uses, *op.ring.uses)):
        raise VerifyException(f"expected {what}, got none")
