"""What an op does to tiles, beside giving results: which it reads and writes, which unit does it, so
how it completes, and which threads meet at it. Every op of ours without the trait `Pure` declares
this; passes that move ops, assign roles or synchronize ask `effects_of` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache
from typing import NamedTuple

from xdsl.dialects import arith, func, scf
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.traits import MemoryEffect, NoMemoryEffect, Pure, is_side_effect_free

from cutedialect.dialects.walks import walk


class Unit(Enum):
    """What executes an op, which says how its reads and writes complete."""

    THREADS = "threads"
    """In the order of the threads' own programs."""
    CP_ASYNC = "cp_async"
    """With a group of `cp.async` (PTX ISA 9.7.9.25.3)."""
    TMA_LOAD = "tma_load"
    """With the bytes of a transaction at an mbarrier (PTX ISA 9.7.9.27)."""
    TMA_STORE = "tma_store"
    """With a bulk group of the thread that issues it: of its source, then of its result."""
    WGMMA = "wgmma"
    """With a group of warpgroup multiplies (PTX ISA 9.7.15.7)."""
    TCGEN05 = "tcgen05"
    """With a commit of the issuing thread to an mbarrier (PTX ISA 9.7.16.6.2)."""

    @property
    def takes_one_thread(self) -> bool:
        """Whether one thread issues all of what others wait for at an mbarrier."""
        return self in (Unit.TMA_LOAD, Unit.TMA_STORE, Unit.TCGEN05)


class Effects(NamedTuple):
    """The tiles that an op reads and writes, the unit that does it, and who meets there.

    `meets` is 0 where threads pass one by one, `ALL` where all of the CTA (or role) wait for each
    other and see what they have written, else the number of neighboring warps that do; `shows` is
    the memory space of which they surely see it, "" for all of them. `orders`
    marks ops that synchronize, count or talk to others and so keep their place, though they touch
    no tile; `by_every_role` those of them that give each role the same numbers. `team` is the
    number of neighboring warps, or `ALL`, that do it together without seeing each other's writes:
    in an exchange, or by one thread of theirs. Of ops that stand between others and asynchronous
    work, `closes` names the unit of which they end a group, `completes` that for which they wait;
    `fences` marks those after which a thread's own accesses are ordered.
    """

    reads: tuple[SSAValue, ...] = ()
    writes: tuple[SSAValue, ...] = ()
    unit: Unit = Unit.THREADS
    meets: int = 0
    shows: str = ""
    orders: bool = False
    by_every_role: bool = False
    team: int = 0
    closes: Unit | None = None
    completes: Unit | None = None
    fences: bool = False

    @property
    def starts_or_publishes(self) -> bool:
        """Whether the op starts asynchronous work, ends a group of it, or makes writes visible."""
        starts = self.unit not in (Unit.THREADS, Unit.TMA_LOAD)
        return starts or self.closes is not None or self.fences

    def stays_within(self, warps: int) -> bool:
        """Whether so many neighboring warps do the op without others, and without starting what
        they would have to wait for together.
        """
        if self.orders and self.completes is None and self.closes is None and not self.fences:
            return False
        return all(0 <= count <= warps for count in (self.meets, self.team)) and self.unit in (
            Unit.THREADS,
            Unit.CP_ASYNC,
            Unit.TMA_STORE,
        )

    def touches_only(self, *spaces: str) -> bool:
        """Whether all that the op reads and writes lies in some memory spaces."""
        return all(space_of(value) in spaces for value in (*self.reads, *self.writes))


RMEM = "rmem"
"""The memory space of register tiles."""
ALL = -1
"""`Effects.meets` of an op at which all threads of the CTA, or of the role, wait for each other."""
NONE = Effects()
ALLOCATES = Effects(orders=False)
"""Of an op that makes a buffer, a ring or a place in one: it stays as long as it is used."""
ORDERS = Effects(orders=True)

# Ops of xDSL's dialects that hold others or end a block: what they do is what stands inside.
_CONTROL = (scf.ForOp, scf.IfOp, scf.WhileOp, scf.YieldOp, scf.ConditionOp, func.ReturnOp)


def effects_of(op: Operation) -> Effects:
    """What an op does, not counting ops inside of it.

    Raises `TypeError` for an op that is neither pure nor declares its effects.
    """
    kind = type(op)
    declare = _declaration(kind)
    if declare is not None:
        return declare(op)
    if _only_holds(kind) or is_pure(op):
        return NONE
    raise TypeError(f"expected an op that declares its effects, got {op.name}")


def is_pure(op: Operation) -> bool:
    """Whether an op does nothing but give results, those inside of it included."""
    of_all = _are_pure(type(op))
    return is_side_effect_free(op) if of_all is None else of_all


# Of a kind of op these are asked some ten thousand times in a compilation.
@cache
def _declaration(kind: type[Operation]) -> Callable[[Operation], Effects] | None:
    """The method by which ops of a kind declare what they do."""
    return getattr(kind, "effects", None)


@cache
def _only_holds(kind: type[Operation]) -> bool:
    """Whether ops of a kind do nothing but what stands inside of them, or compute numbers."""
    return issubclass(kind, _CONTROL) or kind.dialect_name() == arith.Arith.name


@cache
def _are_pure(kind: type[Operation]) -> bool | None:
    """Whether all ops of a kind are pure; None where that depends on the op."""
    traits = kind.get_traits_of_type(MemoryEffect)
    if not traits:
        return False
    return True if all(isinstance(trait, NoMemoryEffect) for trait in traits) else None


def touches_tiles(op: Operation) -> bool:
    """Whether an op reads or writes tiles, works on registers, or has a place in the order of what
    happens, so that somebody in particular does it: anybody may compute numbers and views, and
    control does what stands inside of it.
    """
    effects = effects_of(op)
    return (
        bool(effects.reads or effects.writes or effects.meets)
        or (effects.orders and not effects.by_every_role)
        or any(space_of(value) == RMEM for value in (*op.operands, *op.results))
    )


def space_of(value: SSAValue) -> str | None:
    """The memory space of a tile (`gmem`, `smem`, `tmem`, `rmem` of register tiles); None of what
    is no tile.
    """
    return getattr(value.type, "space", None)


def is_in_memory(value: SSAValue) -> bool:
    """Whether a value is a tile in memory, rather than in registers or none."""
    return space_of(value) not in (None, RMEM)


def unit_of(atom: Attribute | None) -> Unit:
    """The unit that executes copies or multiplies of an atom: threads, if the atom names no other."""
    return getattr(atom, "unit", Unit.THREADS)


def team_of(atom: Attribute | None) -> int:
    """`Effects.team` of copies of an atom: TMA copies are started by one thread of a team."""
    if unit_of(atom) not in (Unit.TMA_LOAD, Unit.TMA_STORE):
        return 0
    return getattr(atom, "warps", None) or ALL


def written(op: Operation) -> tuple[SSAValue, ...]:
    """The tiles that an op changes; not those of ops inside of it."""
    return effects_of(op).writes


def written_by(*ops: Operation) -> set[SSAValue]:
    """The tiles that ops and those inside of them change."""
    return {value for op in ops for inner in walk(op) for value in written(inner)}


def used_by(*ops: Operation) -> set[SSAValue]:
    """The operands of ops and of those inside of them."""
    return {value for op in ops for inner in walk(op) for value in inner.operands}


def declared(ops: Iterable[type[IRDLOperation]]) -> list[type[Operation]]:
    """The ops of a dialect, each of which says what it does.

    Raises `TypeError` naming the first that does not.
    """
    found: list[type[Operation]] = []
    for op in ops:
        is_pure = any(isinstance(trait, Pure) for trait in op.get_irdl_definition().traits)
        if not is_pure and not callable(getattr(op, "effects", None)):
            raise TypeError(
                f"expected the trait Pure or a method effects() of the op {op.name}, got neither"
            )
        found.append(op)
    return found
