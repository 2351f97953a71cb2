"""The path to a body of a loop or condition: what has to hold for a team to come there, and inputs
with which it does.

Inputs are looked for by how far the path's conditions are from holding: a < b by a - b + 1, so that
one number after the other is moved while that gets less (Korel's alternating variable method,
IEEE TSE 16(8), 1990). Numbers are an extent, a scalar, an element of a tensor, a block, and which
trip of a loop around the body it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import BlockArgument, Operation, SSAValue

from cutedialect.dialects import pipeline
from cutedialect.dialects.walks import walk

from .events import Does, row_of
from .inputs import Inputs
from .nodes import Skeleton
from .scalars import NUMBER_AND_RESULT, Numbers, constant_of, function_of, sources_of, step_of

_Values = list[Any]
_Compute = Callable[[_Values, Numbers], Any]
_Distance = Callable[[_Values, Numbers], int]
_Moved = frozenset[SSAValue]
_ToBound = Callable[[_Values, Numbers, int], int]
# How often a path is tried, and the largest step of a number.
_MOST_TRIES, _LARGEST_STEP = 600, 1 << 14
# Steps of a number that are tried beside the one that a condition lacks.
_STEPS = (16, 256)
# How far a number is from a bound that is another constant.
_NEVER = 1 << 40
_QUOTIENTS = (arith.FloorDivSIOp, arith.CeilDivSIOp, arith.DivSIOp)
# What an op that is asked for work gives.
_CLAIMS = frozenset((Does.RESPOND, Does.CLAIM))
# Numbers that are no choice: how many CTAs there are, and which of its cluster one is.
_NO_CHOICE = ("cute.grid_dim", "cute.cluster_rank")


class Path:
    """The conditions that lead into a region of an op, and what they are computed from: a program
    of steps, each of which fills in the place of one value.
    """

    def __init__(self, skeleton: Skeleton, op: Operation, region: int) -> None:
        self.skeleton = skeleton
        self.places: dict[SSAValue, int] = {}
        self.constants: list[tuple[int, Any]] = []
        self.steps: list[tuple[int, _Compute]] = []
        # Which trip of a loop, or instance of a role: ("local", place).
        self.locals: list[Any] = []
        self.distances: list[_Distance] = []
        self.bounds: dict[tuple[SSAValue, bool, _Moved], _ToBound] = {}
        self.bent: dict[SSAValue, bool] = {}
        self.fixed: dict[SSAValue, bool] = {}
        for outer, at in regions_around(op, region):
            self._lead_into(outer, at)

    def distance(self, numbers: Mapping[Any, int], base: Inputs) -> tuple[int, dict[Any, int]]:
        """How far the conditions are from holding, 0 where they hold, and the terms that were asked
        for: some are numbers, others are what they are in a base.
        """
        values: _Values = [0] * len(self.places)
        for place, constant in self.constants:
            values[place] = constant
        for term in self.locals:
            values[term[1]] = numbers.get(term, 0)
        asked: dict[Any, int] = {}

        def number(value: Any) -> int:
            if type(value) is int:
                return value
            known = asked.get(value)
            if known is None:
                known = numbers.get(value)
                known = asked[value] = base.answer(value, number) if known is None else known
            return known

        for place, compute in self.steps:
            values[place] = compute(values, number)
        return sum(distance(values, number) for distance in self.distances), asked

    def _lead_into(self, op: Operation, region: int) -> None:
        if isinstance(op, scf.ForOp):
            self.distances.append(self._until_less(op.body.block.args[0], op.ub, 1))
        elif isinstance(op, scf.IfOp):
            self.distances.append(self._until(op.cond, region == 0))
        elif isinstance(op, scf.WhileOp):
            last = op.before_region.block.last_op
            assert isinstance(last, scf.ConditionOp)
            self.distances.append(self._until(last.condition, True))

    def _until(self, condition: SSAValue, holds: bool) -> _Distance:
        """How far a condition is from being one thing."""
        op = condition.owner
        if isinstance(op, arith.CmpiOp):
            return self._until_compared(op, holds)
        if isinstance(op, arith.AndIOp | arith.OrIOp) and condition.type == IntegerType(1):
            sides = [self._until(side, holds) for side in op.operands]
            combine = sum if isinstance(op, arith.AndIOp) is holds else min
            return lambda values, number: combine([side(values, number) for side in sides])
        if isinstance(op, arith.XOrIOp) and _is_true(op.rhs):
            return self._until(op.lhs, not holds)
        place = self.place(condition)
        return lambda values, number: int(bool(number(values[place])) is not holds)

    def _until_compared(self, op: arith.CmpiOp, holds: bool) -> _Distance:
        name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        if name in ("eq", "ne"):
            one, other = self.place(op.lhs), self.place(op.rhs)
            if (name == "eq") is holds:
                return lambda values, number: abs(number(values[one]) - number(values[other]))
            return lambda values, number: int(number(values[one]) == number(values[other]))
        is_less, is_strict = (name[1] == "l") is holds, (name[2] == "t") is holds
        sides = (op.lhs, op.rhs) if is_less else (op.rhs, op.lhs)
        return self._until_less(*sides, int(is_strict))

    def _until_less(self, lesser: SSAValue, larger: SSAValue, by: int) -> _Distance:
        """How far one number is from being at least so much less than another one: by how much more
        that has to be, or, where it cannot, by how much less the first one.
        """
        one, other = self.place(lesser), self.place(larger)
        moved = {lesser}
        if isinstance(lesser, BlockArgument) and isinstance(
            loop := lesser.block.parent_op(), scf.ForOp
        ):
            moved.add(loop.lb)
        # What moves the other number, too, leads nowhere.
        least = self._until_bound(larger, True, frozenset(moved))
        most = self._until_bound(lesser, False, frozenset((larger,)))

        def distance(values: _Values, number: Numbers) -> int:
            low, high = number(values[one]), number(values[other])
            if low + by <= high:
                return 0
            more = least(values, number, low + by)
            return more if more < _NEVER else most(values, number, high - by)

        return distance

    def _until_bound(self, value: SSAValue, is_least: bool, moved: _Moved) -> _ToBound:
        """How far a number is from a bound that it is to reach, or to stay below. The least of two
        reaches one when both do, and a quotient when what is divided reaches that many times more.
        """
        known = self.bounds.get((value, is_least, moved))
        if known is not None:
            return known
        place, inner = self.place(value), self._inside(value, is_least, moved)
        is_fixed = value in moved or self._is_fixed(value)

        def distance(values: _Values, number: Numbers, bound: int) -> int:
            short = bound - number(values[place])
            if not is_least:
                short = -short
            if short <= 0:
                return 0
            return _NEVER if is_fixed else inner(values, number, bound) if inner else short

        self.bounds[value, is_least, moved] = distance
        return distance

    def _inside(self, value: SSAValue, is_least: bool, moved: _Moved) -> _ToBound | None:
        """The same by what a number is computed from, where that is more than a sum."""
        op = value.owner
        if isinstance(value, BlockArgument):
            loop = value.block.parent_op()
            if is_least or not isinstance(loop, scf.ForOp) or value.index:
                return None
            # No trip is in front of the first one.
            return self._beside(loop.lb, value, is_least, moved)
        if not self._is_bent(value):
            return None
        match op:
            case arith.MinSIOp() | arith.MaxSIOp():
                sides = [self._until_bound(side, is_least, moved) for side in op.operands]
                combine = sum if isinstance(op, arith.MinSIOp) is is_least else min
                return lambda values, number, bound: combine(
                    [side(values, number, bound) for side in sides]
                )
            case arith.AddiOp() | arith.SubiOp():
                # To go all ways would be many in a sum of sums.
                bent = next(side for side in op.operands if self._is_bent(side))
                return self._beside(bent, value, is_least, moved)
            case _:
                return self._times(op, is_least, moved)

    def _is_bent(self, value: SSAValue) -> bool:
        """Whether a number is the least or largest of some, a quotient, or a sum of such."""
        return self._asked(
            self.bent,
            value,
            lambda op: (
                isinstance(op, arith.MinSIOp | arith.MaxSIOp)
                or (isinstance(op, _QUOTIENTS) and _constant_in(op) > 0)
                or (
                    isinstance(op, arith.AddiOp | arith.SubiOp)
                    and any(map(self._is_bent, op.operands))
                )
                or (isinstance(op, arith.MuliOp) and _constant_in(op) > 0 and self._is_bent(op.lhs))
            ),
        )

    def _is_fixed(self, value: SSAValue) -> bool:
        """Whether a number is the same whatever the inputs are."""
        return self._asked(
            self.fixed,
            value,
            lambda op: (
                constant_of(op) is not None
                or (function_of(op) is not None and all(map(self._is_fixed, op.operands)))
            ),
        )

    def _asked(
        self,
        known: dict[SSAValue, bool],
        value: SSAValue,
        holds: Callable[[Any], bool],
    ) -> bool:
        if value not in known:
            known[value] = isinstance(value.owner, Operation) and holds(value.owner)
        return known[value]

    def _beside(self, part: SSAValue, whole: SSAValue, is_least: bool, moved: _Moved) -> _ToBound:
        """How far a part of a sum is from a bound of the sum, where all else in it stays."""
        place, of = self.place(part), self.place(whole)
        is_subtracted = isinstance(whole.owner, arith.SubiOp) and whole.owner.rhs is part
        to_bound = self._until_bound(part, is_least is not is_subtracted, moved)

        def distance(values: _Values, number: Numbers, bound: int) -> int:
            more = bound - number(values[of])
            return to_bound(
                values, number, number(values[place]) + (-more if is_subtracted else more)
            )

        return distance

    def _times(self, op: Any, is_least: bool, moved: _Moved) -> _ToBound:
        """The same for a product by a number, or a quotient."""
        by = _constant_in(op)
        to_bound = self._until_bound(op.operands[0], is_least, moved)
        if isinstance(op, arith.MuliOp):
            return lambda values, number, bound: to_bound(
                values, number, -(-bound // by) if is_least else bound // by
            )
        # What is divided is at most so much more where its quotient is rounded down, or less.
        is_up = isinstance(op, arith.CeilDivSIOp)
        more = (1 - by if is_least else 0) if is_up else (0 if is_least else by - 1)
        return lambda values, number, bound: to_bound(values, number, bound * by + more)

    def place(self, value: SSAValue) -> int:
        """The place of a value, behind those that it is computed from."""
        at = self.places.get(value)
        if at is not None:
            return at
        constant = _constant(value.owner) if isinstance(value.owner, Operation) else None
        compute = self._computed(value) if constant is None else None
        at = self.places[value] = len(self.places)
        if compute is None:
            self.constants.append((at, constant))
        else:
            self.steps.append((at, compute))
        return at

    def _local(self, key: Any) -> int:
        """The place of a number of the path's own."""
        at = self.places[key] = len(self.places)
        self.locals.append(("local", at))
        return at

    def _computed(self, value: SSAValue) -> _Compute:
        if isinstance(value, BlockArgument):
            return self._argument(value)
        op = value.owner
        assert isinstance(op, Operation)
        if type(op) in NUMBER_AND_RESULT:
            return self._given(op)
        if isinstance(op, scf.IfOp | scf.ForOp | scf.WhileOp):
            return self._of_control(op, value)
        if isinstance(op, pipeline.InstanceOp):
            return _same(self._local(("instance", op)))
        places = [self.place(source) for source in sources_of(op)]
        function = function_of(op)
        if function is not None:
            return _of_two(function, *places)
        step = step_of(op)
        return lambda values, number: step([values[at] for at in places], number)

    def _argument(self, value: BlockArgument) -> _Compute:
        op = value.block.parent_op()
        if op is self.skeleton.kernel:
            term = "input", value.index
            return lambda values, number: term
        if isinstance(op, scf.ForOp) and value.index == 0:
            lower, step = self.place(op.lb), self.place(op.step)
            trip = self._local(("trip", op))
            return lambda values, number: (
                number(values[lower]) + values[trip] * max(1, number(values[step]))
            )
        if isinstance(op, scf.ForOp):
            return _same(self.place(op.iter_args[value.index - 1]))
        assert isinstance(op, scf.WhileOp)
        if value.block is op.before_region.block:
            return _same(self.place(op.arguments[value.index]))
        return self._of_control(op, value)

    def _of_control(self, op: scf.IfOp | scf.ForOp | scf.WhileOp, value: Any) -> _Compute:
        """What a condition gives, and loops that end at once, or do so in their first trip."""
        at = value.index
        if isinstance(op, scf.ForOp):
            return _same(self.place(op.iter_args[at]))
        if isinstance(op, scf.WhileOp):
            last = op.before_region.block.last_op
            assert isinstance(last, scf.ConditionOp)
            return _same(self.place(last.args[at]))
        condition = self.place(op.cond)
        one, other = (self.place(_last_of(region.block).operands[at]) for region in op.regions)
        return lambda values, number: values[one if number(values[condition]) else other]

    def _given(self, op: Operation) -> _Compute:
        """What an op gives that does more than compute: the number of a work item, or whether a CTA
        is the last one.
        """
        name, _ = NUMBER_AND_RESULT[type(op)]
        row = row_of(op)
        if row is not None and row.does in _CLAIMS:
            total = self.place(getattr(op, name))
            return lambda values, number: _claimed(number(values[total]), number)
        if isinstance(op, pipeline.ReceiveOp):
            sent = next(
                (
                    other
                    for other in walk(self.skeleton.kernel)
                    if isinstance(other, pipeline.SendOp) and other.slots.owner is op.slots.owner
                ),
                None,
            )
            return _same(self.place(sent.value) if sent is not None else self._local(op))
        term = "condition", op.name
        return lambda values, number: term


def _constant(op: Operation) -> int | None:
    """The number that an op gives in all cases: of what it does with data nothing is known, which
    is zero in what conditions are told by.
    """
    row = row_of(op)
    return 0 if row is not None and row.does is Does.NOTHING else constant_of(op)


def _constant_in(op: Operation) -> int:
    """The number that an op multiplies or divides by, 0 where that is none above 0."""
    factor = op.operands[1].owner
    return max(0, (constant_of(factor) or 0) if isinstance(factor, Operation) else 0)


def _same(place: int) -> _Compute:
    return lambda values, number: values[place]


def _of_two(function: Callable[[int, int], int], one: int, other: int) -> _Compute:
    """What a function makes of the integers at two places."""

    def compute(values: _Values, number: Numbers) -> int:
        first, second = values[one], values[other]
        # Most are integers.
        if type(first) is not int:
            first = number(first)
        if type(second) is not int:
            second = number(second)
        return function(first, second)

    return compute


def _claimed(total: int, number: Numbers) -> int:
    return total if total < 2 else number(("claims", "item", total))


def _is_true(value: SSAValue) -> bool:
    op = value.owner
    constant = op.value if isinstance(op, arith.ConstantOp) else None
    return isinstance(constant, IntegerAttr) and bool(constant.value.data)


def _last_of(block: Any) -> Operation:
    last = block.last_op
    assert last is not None
    return last


def regions_around(op: Operation, region: int) -> Sequence[tuple[Operation, int]]:
    """The regions around a body and itself, from the outermost one on."""
    regions: list[tuple[Operation, int]] = []
    inside: Any = op.regions[region]
    while inside is not None and (parent := inside.parent) is not None:
        regions.append((parent, parent.regions.index(inside)))
        inside = parent.parent_region()
    return regions[::-1]


def inputs_into(
    skeleton: Skeleton, op: Operation, region: int, *bases: Inputs, is_signed: bool = False
) -> Inputs | None:
    """Inputs that lead into a region of an op, as near to some as one number after the other comes:
    to those that are nearest to it, then to others but for those from which nothing leads there;
    None where none were found. Scalars are below zero where that `is_signed` alone.
    """
    path = Path(skeleton, op, region)
    searches = [_Search(path, base, is_signed) for base in bases]
    if is_signed and not any(term[0] == "input" for each in searches for term in each.asked):
        return None
    searches.sort(key=lambda search: search.distance)
    near = [search for search in searches if search.distance < _NEVER] or searches
    return next(filter(None, (search.run() for search in near)), None)


class _Search:
    """A search for the inputs of one path: what was set, and how far that is from the body. Scalars
    may be below zero in one that is signed.
    """

    def __init__(self, path: Path, base: Inputs, is_signed: bool) -> None:
        self.path, self.base, self.is_signed = path, base, is_signed
        self.tries = 0
        self.numbers: dict[Any, int] = {}
        self.distance, self.asked = path.distance(self.numbers, base)

    def run(self) -> Inputs | None:
        is_nearer = True
        while self.distance and is_nearer:
            before = self.distance
            for term in (*self.path.locals, *self.asked):
                if term[0] == "condition":
                    self._set(term, 1 - self._now(term))
                elif term[1] not in _NO_CHOICE:
                    self._move(term)
                if not self.distance or self.tries > _MOST_TRIES:
                    break
            is_nearer = self.distance < before and self.tries <= _MOST_TRIES
        if self.distance:
            return None
        values = [term for term in self.numbers if term[0] != "local"]
        for term in values:
            self._return(term)
        return self.base.but(values={term: self.numbers[term] for term in values})

    def _now(self, term: Any) -> int:
        number = self.numbers.get(term)
        if number is None:
            number = 0 if term[0] == "local" else self.base.answer(term)
        return number

    def _set(self, term: Any, number: int) -> bool:
        """Let a term be a number, if that leads nearer."""
        if number < 0 and not (self.is_signed and term[0] == "input"):
            return False
        numbers = {**self.numbers, term: number}
        self.tries += 1
        distance, asked = self.path.distance(numbers, self.base)
        if distance >= self.distance:
            return False
        self.numbers, self.distance, self.asked = numbers, distance, asked
        return True

    def _move(self, term: Any) -> None:
        """Let a term be the next number that leads nearer, and go on so in steps that double. Most
        are as far away as the conditions are from holding, or near.
        """
        # Blocks of one cluster go one way.
        unit = self.path.skeleton.cluster if term[1] == "cute.block_idx" else 1
        is_nearer = True
        while is_nearer and self.distance:
            steps = dict.fromkeys(
                sign * step * unit for step in (1, self.distance, *_STEPS) for sign in (1, -1)
            )
            is_nearer = any(self._go(term, step) for step in steps)

    def _go(self, term: Any, step: int) -> bool:
        """Whether a step of a number leads nearer; go on while it does."""
        is_nearer = False
        while abs(step) <= _LARGEST_STEP and self._set(term, self._now(term) + step):
            is_nearer = True
            step *= 2
        return is_nearer

    def _return(self, term: Any) -> None:
        """Let a number be as near to what it is in the base as the body may be entered with."""
        near, far = self.base.answer(term), self.numbers[term]
        if not self.path.distance({**self.numbers, term: near}, self.base)[0]:
            far = near
        while abs(far - near) > 1:
            between = (near + far) // 2
            if self.path.distance({**self.numbers, term: between}, self.base)[0]:
                near = between
            else:
                far = between
        self.numbers[term] = far
