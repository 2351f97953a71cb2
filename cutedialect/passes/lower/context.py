"""What the lowering of one kernel shares: the scalar builder, the block size, the target, the
shared memory plan, and the structured ops (if, foreach, register arrays) that the steps are made
of.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile

from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.atoms import WARP_SIZE
from cutedialect.dialects import ptx
from cutedialect.dialects.cute import FragmentType, element_bits
from cutedialect.dialects.element_names import element_name
from cutedialect.dialects.pipeline import ACCESSES
from cutedialect.passes.analysis.lines import longest_exchange

from .scalar_builder import Scalar, ScalarBuilder, array_type


def fail(op: Operation, message: str) -> PassFailedException:
    """The error of this pass at an op."""
    return PassFailedException(op, f"{op.name}: {message}")


def scalar_class(element: Attribute) -> str:
    """Register class of one scalar of an element type, or of a pointer."""
    if element.name == "llvm.ptr":
        return "b64"
    name = float_name(element)
    if name in ("f32", "f64"):
        return name
    bits = element_bits(element)
    return "pred" if bits == 1 else "b16" if bits <= 16 else "b32" if bits <= 32 else "b64"


def pack_factor(element: Attribute) -> int:
    """Elements of a fragment in one register."""
    bits = element_bits(element)
    return 32 // bits if 1 < bits < 32 else 1


def register_class(element: Attribute) -> str:
    """Class of the registers of a fragment."""
    cls = scalar_class(element)
    return "b32" if cls == "b16" else cls


def register_count(type_: FragmentType) -> int:
    return -(-type_.values // pack_factor(type_.element))


@cache
def float_name(element: Attribute) -> str:
    """PTX type of arithmetic on an element: `f16`, `bf16`, `f32`, `f64`, `e4m3`, `s8`, `s32`."""
    return element_name(element) if isinstance(element, AnyFloat) else f"s{element_bits(element)}"


@cache
def number_name(element: Attribute) -> str:
    """PTX type of arithmetic on an element, where the sign of integers matters: `u32`."""
    if isinstance(element, IntegerType) and element.signedness.data is Signedness.UNSIGNED:
        return f"u{element_bits(element)}"
    return float_name(element)


_BARRIERS = 16


@dataclass
class SmemPlan:
    """Offsets of the buffers in dynamic shared memory, in the order of their allocation."""

    used: int = 0

    def take(self, size: int, alignment: int) -> int:
        """The byte offset of a new buffer."""
        offset = -(-self.used // alignment) * alignment
        self.used = offset + size
        return offset


@dataclass
class Team:
    """Threads that run together, those of the CTA or of an instance of a role: their named barrier
    (0 is the CTA's), the warp's number among them, whether one works for all, the registers of each
    where a plan says, and which of the instances they are.
    """

    threads: int
    barrier: int = 0
    warp: Scalar | None = None
    elected: bool = False
    registers: int | None = None
    instance: Scalar = 0
    instances: int = 1
    # The kernel or role whose code they run, and the place in which they exchange values there.
    around: Operation | None = None
    scratch: int | None = None
    scratch_bytes: int = 0


class Steps:
    """The steps of one op: what synchronizes is lowered by `lower` where the op comes to it; its
    accesses are the op's own. Some are left where their condition never holds. `otherwise` are
    those of CTAs that are not the first of their cluster.
    """

    def __init__(
        self,
        ops: Iterable[Operation],
        lower: Callable[[Operation], object],
        may_be_left: bool = False,
        otherwise: Steps | None = None,
    ) -> None:
        self.rest, self.lower, self.otherwise = deque(ops), lower, otherwise
        self.is_at_access, self.may_be_left = False, may_be_left

    def go_on(self, last: type[Operation] | None = None) -> None:
        """Up to the next access, or through the last one in front of it that is of a class."""
        if self.is_at_access:
            self.rest.popleft()
        ahead = list(takewhile(lambda op: not isinstance(op, ACCESSES), self.rest))
        if last is not None:
            while ahead and not isinstance(ahead[-1], last):
                ahead.pop()
        for op in ahead:
            self.rest.popleft()
            self.lower(op)
        self.is_at_access = bool(self.rest) and isinstance(self.rest[0], ACCESSES) and last is None

    @property
    def is_over(self) -> bool:
        """Whether the op has come to all of them."""
        is_over = self.may_be_left or len(self.rest) == int(self.is_at_access)
        return is_over and (self.otherwise is None or self.otherwise.is_over)


@dataclass
class Context:
    """The kernel being lowered."""

    builder: ScalarBuilder
    team: Team
    arch: str
    # Whether the kernel multiplies no matrices: its time is that of its loads and stores.
    is_streaming: bool = False
    smem: SmemPlan = field(default_factory=SmemPlan)
    barriers_taken: int = 1
    # The first barrier of groups that meet or take turns, by that of their team and their warps.
    group_barriers: dict[tuple[int, int], int] = field(default_factory=dict)
    # Whether the launch in front of this one may still be at work.
    is_early: bool = False
    # Offsets of the tiles of ones with which multiplies add up rows, by the type of an element.
    ones: dict[Attribute, int] = field(default_factory=dict)
    # CTAs that an SM is to hold at a time.
    resident: int = 1
    # How threads do the op that is being lowered by memory that they share.
    steps: Steps | None = None

    @property
    def threads(self) -> int:
        """Threads of the team that runs here."""
        return self.team.threads

    def wait_for_launch(self) -> None:
        """Wait, once, for the launch in front of this one, in front of all that it may have
        written. The next one may start as soon as there is room for it: it waits here too.
        """
        if self.is_early:
            self.is_early = False
            self.builder.emit(ptx.GriddepLaunchOp())
            self.builder.emit(ptx.GriddepWaitOp())

    def barrier(self, warps: int | None = None) -> None:
        """All threads of the CTA, or of the role, meet; or every `warps` of its warps."""
        name, threads = self._meeting(warps)
        whole = name == 0 and not self.team.barrier
        self.builder.emit(ptx.BarSyncOp(name, None if whole else threads))

    def synchronize(self, last: type[Operation] | None = None) -> None:
        """What stands in the steps of this op in front of its next access to memory that threads
        share, the one behind the access for which this was asked before, if it was; or of that what
        ends with an op of a class.
        """
        if self.steps is None:
            raise ValueError(
                "expected pipeline.steps in front of what threads do by memory that they share "
                "(cute-expand-roles), got none"
            )
        self.steps.go_on(last)

    def any_thread(self, predicate: Scalar, warps: int | None = None) -> Scalar:
        """Whether a predicate holds for any thread of those that meet, known to be the same for the
        lanes of a warp.
        """
        if self.team.elected or isinstance(predicate, int):
            return predicate
        builder = self.builder
        if warps == 1:
            # All lanes of a warp come here together, and get the same (PTX ISA 9.7.13.11).
            given = builder.value(predicate, "pred")
            return builder.result(
                ptx.VoteOp("sync.any.pred", given, builder.imm(0xFFFFFFFF, "b32"))
            )
        name, threads = self._meeting(warps)
        at, given = builder.value(name, "b32"), builder.value(predicate, "pred")
        found = builder.result(ptx.BarAnyOp(given, at, threads))
        word = builder.value(builder.pure("selp.b32", 1, 0, found), "b32")
        return builder.pure("setp.ne.s32", builder.uniform(word), 0)

    def _meeting(self, warps: int | None) -> tuple[int | SSAValue, int]:
        """The barrier at which the CTA or role meets, or every `warps` of its warps, and how many
        threads do.
        """
        team = self.team
        if warps is None or warps * WARP_SIZE >= team.threads:
            name = self._name(team.barrier, team.instance) if team.barrier else 0
            return name, team.threads
        groups = team.threads // (warps * WARP_SIZE)
        first = self._barriers_of((team.barrier, warps), groups * team.instances)
        mine = self.builder.mul(team.instance, groups)
        name = self.builder.add(self.group_index(warps), first)
        return self._name(name, mine), warps * WARP_SIZE

    def turn(self, passes: bool, warps: int | None = None, outside: bool = False) -> None:
        """An instance of the role, or a group of so many warps of one, waits for its turn, or
        passes it on to the next one; `outside` the last group passes the first turn on, or the
        first one takes back the last.
        """
        builder, team = self.builder, self.team
        if warps is None:
            threads, count, mine, base = team.threads, team.instances, team.instance, 0
            first = self._barriers_of((team.barrier, 0), count)
        else:
            threads = warps * WARP_SIZE
            count = team.threads // threads
            first = self._barriers_of((team.barrier, -warps), count * team.instances)
            mine = self.group_index(warps)
            base = builder.mul(team.instance, count)
        at = builder.rem(builder.add(mine, 1), count) if passes else mine
        kind = ptx.BarArriveOp if passes else ptx.BarSyncOp

        def step() -> None:
            # Two meet at each barrier: whose turn it was, and whose it will be.
            name = self._name(builder.add(at, first), base)
            builder.emit(kind(name, 2 * threads))

        alone = builder.equal(mine, count - 1 if passes else 0)
        self.when(alone if outside else True, step)

    def _name(self, first: Scalar, more: Scalar) -> int | SSAValue:
        """The sum of two numbers as the operand of a barrier."""
        name = self.builder.add(first, more)
        assert not isinstance(name, float)
        return name

    def _barriers_of(self, key: tuple[int, int], count: int) -> int:
        """The first of the barriers of groups, taken once."""
        if key not in self.group_barriers:
            self.group_barriers[key] = self.take_barriers(count)
        return self.group_barriers[key]

    def take_barriers(self, count: int) -> int:
        """The first of `count` named barriers that nobody has (PTX ISA 9.7.13.1: 16 of a CTA)."""
        first = self.barriers_taken
        self.barriers_taken += count
        if self.barriers_taken > _BARRIERS:
            raise ValueError(
                f"expected at most {_BARRIERS} named barriers, got {self.barriers_taken}"
            )
        return first

    def warp_index(self) -> Scalar:
        """The warp's number in the CTA or role, known to be the same in all its lanes."""
        return self.builder.warp_index() if self.team.warp is None else self.team.warp

    def group_index(self, warps: int) -> Scalar:
        """Which group of so many warps this one belongs to."""
        return self.builder.div(self.warp_index(), warps)

    def by_one_thread(self, body: Callable[[], object], warps: int | None = None) -> None:
        """Run on one thread of the CTA or role, or of every `warps` of its warps: that of their
        first warp which the hardware elects, always the same.
        """
        if self.team.elected:
            body()
            return

        warp = self.warp_index()
        if warps is not None:
            warp = self.builder.rem(warp, warps)
        is_first = self.builder.equal(warp, 0)
        self.when(is_first, lambda: self.when(self.builder.result(ptx.ElectOp()), body))

    def scratch_at(self, size: int) -> tuple[int, Scalar]:
        """Byte offset of a scratch buffer that the ops of a team share, as long as the longest of
        their exchanges, and what the instance of the role adds to it; it never moves once given.
        """
        team = self.team
        if team.scratch is None or size > team.scratch_bytes:
            if team.around is not None:
                size = max(size, longest_exchange(team.around))
            team.scratch_bytes = -(-size // 16) * 16
            team.scratch = self.smem.take(team.scratch_bytes * team.instances, 16)
        return team.scratch, self.builder.mul(team.instance, team.scratch_bytes)

    def registers(self, cls: str, count: int) -> SSAValue:
        """A new array of registers."""
        return self.builder.result(ptx.RegArrayOp(cls, count))

    def fill(self, array: SSAValue, value: Scalar) -> None:
        self.builder.emit(ptx.FillOp(array, self.builder.value(value, array_class(array))))

    def when(
        self,
        predicate: Scalar,
        then: Callable[[], object],
        otherwise: Callable[[], object] | None = None,
        is_rare: bool = False,
    ) -> None:
        """A branch, the first side of which may be rare; a constant predicate leaves one side."""
        constant = self.builder.constant(predicate)
        if constant is not None:
            if constant:
                then()
            elif otherwise is not None:
                otherwise()
            return
        assert isinstance(predicate, SSAValue)
        blocks = []
        for side in (then, otherwise):
            block = Block()
            if side is not None:
                self.builder.push(block, repeats=False, is_rare=is_rare and side is then)
                side()
                self.builder.pop()
            blocks.append(block)
        self.builder.emit(ptx.IfOp(predicate, *blocks))

    def foreach(
        self,
        count: int,
        sources: Sequence[tuple[SSAValue, Sequence[int]]],
        targets: Sequence[tuple[SSAValue, Sequence[int]]],
        body: Callable[[list[SSAValue]], Sequence[Scalar]],
        constants: Sequence[Sequence[int]] = (),
    ) -> None:
        """Scalar code for each entry of the index tables; `body` gets sources, then constants."""
        types = [ptx.reg(array_class(array)) for array, _ in sources]
        types += [ptx.reg("b32")] * len(constants)
        block = Block(arg_types=types)
        self.builder.push(block, repeats=True)
        results = body(list(block.args))
        values = [
            self.builder.value(result, array_class(array))
            for result, (array, _) in zip(results, targets, strict=True)
        ]
        self.builder.emit(ptx.YieldOp(values))
        self.builder.pop()
        self.builder.emit(ptx.ForeachOp(count, sources, constants, targets, block))

    def table_of(self, scalars: Sequence[Scalar], cls: str) -> tuple[list[SSAValue], list[int]]:
        """Distinct operands, and for each scalar the index of its own."""
        values = [self.builder.value(scalar, cls) for scalar in scalars]
        distinct = list(dict.fromkeys(values))
        places = {value: i for i, value in enumerate(distinct)}
        return distinct, [places[value] for value in values]

    def guards(self, predicates: Sequence[Scalar]) -> tuple[list[SSAValue], list[int] | None]:
        """Predicate operands and table; the table is None when nothing is predicated."""
        if all(predicate is True for predicate in predicates):
            return [], None
        given = [predicate for predicate in predicates if predicate is not True]
        distinct, places = self.table_of(given, "pred")
        following = iter(places)
        return distinct, [-1 if each is True else next(following) for each in predicates]

    def move(
        self,
        source: SSAValue,
        source_index: Sequence[int],
        target: SSAValue,
        target_index: Sequence[int],
    ) -> None:
        """Copy registers between arrays of one class."""
        self.foreach(len(source_index), [(source, source_index)], [(target, target_index)], list)

    def mapped(self, array: SSAValue, cls: str, body: Callable[[SSAValue], Scalar]) -> SSAValue:
        """A new array, each register of which is made of one of another."""
        every = range(array_type(array).count)
        made = self.registers(cls, len(every))
        self.foreach(len(every), [(array, every)], [(made, every)], lambda args: [body(args[0])])
        return made


def array_class(array: SSAValue) -> str:
    return array_type(array).cls
