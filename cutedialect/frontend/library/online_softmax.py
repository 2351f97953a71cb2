"""Online softmax: the rows of a tile attend to one block of keys after the other.

Softmax runs in base 2. `total` is the sum of a row's exponentials, which count from `m`, a score of
the row or a little less, and `o` is their product with V. A policy of the maximum, a class each,
says how `m` follows the largest score, and `exponentials` is what it makes of a block of scores:

    Exact     m is the largest score so far.
    Lazy      m is less by up to `_SLACK`, so that few blocks scale what was added up before.
    Guessed   m is that of the blocks before. Only exponentials that add up to too much are computed
              again, from the largest score.
    Wary      the same of f16, which has little room above m: a warp whose rows grow looks for the
              largest score ahead of the exponentials.

All but `Exact` divide by the sums of the exponentials as V multiplies them, in 16 bits: where one
key has almost all of the weight, the rounding of its exponential cancels out. `Lazy` may add them
up before ("unrounded"), which takes fewer instructions where the target adds f32 in pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from cutedialect.frontend import functions as cute
from cutedialect.frontend.dtypes import DType, bf16, e4m3, f16, f32, i1
from cutedialect.frontend.elementwise import bounded_exp2, rough_exp2
from cutedialect.frontend.loops import otherwise, when
from cutedialect.frontend.scalar import Scalar
from cutedialect.frontend.tile import Tile

# Exponentials of 8 bits are multiplied by 2^8: e4m3 goes up to 448.
_SHIFT = 8.0
# Those of f16 that count from a guess, by 2^-3: what that loses of small ones, below 2^-14, is less
# than the rounding of the large ones, even where few keys have most of a row's weight and thousands
# the rest (2^-6 had 1.5 times the mean error there). Those of bf16 by 2^-64, where 2 is too much:
# one bit tells that.
_ROOM = {"f16": -3.0, "bf16": -64.0}
_TOO_MUCH = 2.0
# By how much a row's largest score may exceed the one that its exponentials count from. These go
# up to 2^8 in f16 then, and up to 2^64 in bf16, as exact as those up to 1.
_SLACK = {"f16": 8.0, "bf16": 64.0}
# The largest exponential of a row whose sums are of exponentials before rounding. It is also no
# larger than the sum of those before it: its rounding, which the one that counts from itself has
# not, is in what is divided alone, and would be twice the error of exact maxima in a row where one
# key has almost all of the weight.
_MOST_UNROUNDED = 256.0
# What guessed exponentials of a row may add up to in one thread: e4m3 goes up to 448, bf16 as far
# as f32, in which their products with the values of V need room too.
_MOST = {"bf16": 2.0**80}
_MOST_SMALL = 448.0
# f16 has room for few guesses: a row's `m` is left behind by up to 2^_FAR, which two of that add up
# to less than 65504 with. The first blocks take the largest score so far. Where that of the last of
# them exceeds the one before by 2^_NEAR, or once the exponentials of a row add up to 2^_HINT of the
# first ones in a thread, a warp goes on looking for largest scores ahead of exponentials, so that
# hardly any are computed twice.
_NEAR, _HINT, _FAR = 9.0, 14.0, 17.0
FIRST_BLOCKS = 2
# What has to be looked at: rounding hides no row that left its `m` behind by more than 2^_FAR.
_MOST_LEFT = _FAR - 0.01
# Columns that add up rows beside a multiply, and more elements than any thread has.
_SUM_COLUMNS, _ALL = 8, 1 << 10
# In the place of a largest score of -inf: what any score exceeds by too much, and -inf does not.
_LOWEST = -3.4028234663852886e38
# Of a head of zeros the scale may be 0, which would make a number of what a mask hides.
_LEAST_SCALE = 1e-30
_LN2 = math.log(2)
# The number of a block of keys.
Block = Scalar | int


@dataclass(frozen=True)
class Scores:
    """What makes scores, in units of log2(e), of the products of Q and K: `scale`, and `cap` of
    those that are scaled first, so that the largest score is not that of the largest product.
    """

    scale: Scalar
    cap: Scalar | None
    is_scaled_first: bool

    def times(self, *factors: Scalar | None) -> Scores:
        """These with a scale that is multiplied by factors of the head."""
        scale, given = self.scale, [factor for factor in factors if factor is not None]
        for factor in given:
            scale = scale * factor
        if given and not self.is_scaled_first:
            scale = cute.maximum(scale, _LEAST_SCALE)
        return replace(self, scale=scale)

    def scaled(self, s: Tile) -> Tile:
        """The scores that the largest is looked for among."""
        if not self.is_scaled_first:
            return s
        return s * self.scale if self.cap is None else cute.tanh(s * self.scale) * self.cap

    def largest(self, s: Tile) -> Tile:
        """The largest score of each row of a block."""
        top = cute.row_max(s)
        return top if self.is_scaled_first else top * self.scale

    def exponentials(
        self, s: Tile, base: Tile, shift: float, power: Callable[[Tile], Tile] = cute.exp2
    ) -> Tile:
        """2^shift times those of what the scores are above `base`, by a function of 2's powers."""
        below = base - shift if shift else base
        return power((s if self.is_scaled_first else s * self.scale) - below)


@dataclass(frozen=True)
class Weights:
    """The exponentials that multiply V, and what adds them up: `dtype`, `shift` (of 2), whether
    sums are those of rounded ones (`is_rounded`), whether columns beside those of V add them up
    (`by_multiply`), else how many elements of a thread add in 16 bits first (`packed`: of any
    block, of one that a causal mask cuts), and whether logarithms ask for the sums before rounding.
    """

    dtype: DType
    shift: float
    is_rounded: bool
    by_multiply: bool
    packed: tuple[int, int]
    has_logarithms: bool

    @staticmethod
    def of(
        maxima: str, element: DType, sums: str, packed: tuple[int, int], has_lse: bool, cuts: bool
    ) -> Weights:
        """Those of a policy for elements of Q; `cuts` says whether a mask cuts blocks."""
        dtype = e4m3 if element.bits == 8 else element
        is_rounded = maxima != "exact" and dtype.bits == 16 and sums != "unrounded"
        by_multiply = is_rounded and sums == "multiply"
        shift = _SHIFT if dtype.bits == 8 else 0.0
        if maxima == "guessed" and (dtype == f16 or (by_multiply and not has_lse)):
            shift = _ROOM[dtype.name]
        if by_multiply:
            # Whether there is room alone: sums are as exact as can be anyway.
            packed = _ALL, _ALL
        if not (is_rounded and cuts):
            packed = packed[0], packed[0]
        return Weights(dtype, shift, is_rounded, by_multiply, packed, has_lse)

    @property
    def has_bit(self) -> bool:
        """Whether a bit of one of them tells that exponentials are large: no sum is at hand."""
        return self.by_multiply and self.dtype == bf16 and not self.has_logarithms

    def packings(self, is_cut: Scalar) -> Iterator[int]:
        """How many elements the sums of a block add in 16 bits, in each case."""
        whole, cut = self.packed
        if whole == cut:
            yield whole
            return
        with when(is_cut):
            yield cut
        with otherwise():
            yield whole

    def sums(self, p: Tile, rounded: Tile | None, most: int, local: bool = False) -> Tile:
        """Of each row's exponentials: what the products with V are divided by."""
        if self.is_rounded and rounded is not None:
            return cute.row_sum(rounded, local=local, packed=most)
        return cute.row_sum(p, local=local)

    def own_sums(self, p: Tile, rounded: Tile, is_cut: Scalar) -> Tile:
        """What a thread has of these."""
        whole, cut = self.packed
        if whole == cut:
            return self.sums(p, rounded, whole, local=True)
        own = cute.zeros((p.shape[0], 1))
        for most in self.packings(is_cut):
            own.assign(self.sums(p, rounded, most, local=True))
        return own


class OnlineSoftmax:
    """The rows of a tile (bq, bk), and what all policies do with them; `o` has `columns` of V."""

    # Whether no score is above what its exponential counts from by more than a slack.
    is_bounded = False

    def __init__(self, tile: tuple[int, int], columns: int, scores: Scores, p: Weights) -> None:
        self.tile, self.columns, self.scores, self.weights = tile, columns, scores, p
        rows = tile[0], 1
        self.o = cute.zeros((tile[0], columns + (_SUM_COLUMNS if p.by_multiply else 0)))
        self.total, self.m = cute.zeros(rows), cute.full(rows, -cute.inf)
        self.begin()
        # The logarithms are those of sums before rounding.
        self.plain = self.total
        if p.is_rounded and p.has_logarithms:
            self.plain = cute.zeros(rows)

    def begin(self) -> None:
        """Make what a policy has beside `m`."""

    def weigh(self, s: Tile, trip: Scalar, first: Block, is_cut: Scalar) -> Tile:
        """The exponentials of the scores of a block of keys, as V multiplies them: that of a trip,
        the first of which is `first`. What was added up before is scaled to count from the same
        score.
        """
        raise NotImplementedError

    def exponentials(self, s: Tile, base: Tile) -> Tile:
        """Those of what scores are above `base`."""
        power = bounded_exp2 if self.is_bounded else cute.exp2
        return self.scores.exponentials(s, base, self.weights.shift, power)

    def largest(self, s: Tile) -> Tile:
        """The largest score of each row so far."""
        return cute.maximum(self.m, self.scores.largest(s))

    def exceeds(self, new: Tile, by: float | Scalar) -> Tile:
        """Where the largest score of a row is above `m` by more than that. NaN is, too."""
        return ~(new <= self.m + by)

    def add_up(self, p: Tile, rounded: Tile | None, is_cut: Scalar, r: Tile | None = None) -> None:
        """Add a block's exponentials to their sums, which are multiplied by `r` before."""
        total, plain = self.total, self.plain
        if not self.weights.by_multiply:
            for most in self.weights.packings(is_cut):
                sums = self.weights.sums(p, rounded, most)
                total.assign((total if r is None else total * r) + sums)
        if plain is not total:
            plain.assign((plain if r is None else plain * r) + cute.row_sum(p))

    def settle(self, s: Tile, new: Tile, rounded: Tile, is_cut: Scalar, r: Tile) -> None:
        """Let `m` be `new`: the exponentials that count from it, their sums, and `r`, by which what
        was added up before is to be multiplied.
        """
        base = cute.maximum(new, _LOWEST)
        p = self.exponentials(s, base)
        factor = cute.exp2(self.m - base)
        rounded.assign(p.to(self.weights.dtype))
        self.add_up(p, rounded, is_cut, factor)
        r.assign(factor)
        self.m.assign(new)

    def result(self) -> tuple[Tile, Tile]:
        """The products with V and the sums that they are divided by."""
        if not self.weights.by_multiply:
            return self.o, self.total
        total = cute.row_max(self.o.columns(self.columns, _SUM_COLUMNS))
        return self.o.columns(0, self.columns), total

    def logarithms(self, has_no_key: Tile) -> Tile:
        """The natural logarithms of the sums of exponentials; -inf of a row without keys."""
        shift, plain = self.weights.shift, self.plain
        above = cute.log2(plain) - shift if shift else cute.log2(plain)
        return cute.where(has_no_key, -cute.inf, (self.m + above) * _LN2)


class Exact(OnlineSoftmax):
    """Exponentials count from the largest score so far."""

    is_bounded = True

    def weigh(self, s: Tile, trip: Scalar, first: Block, is_cut: Scalar) -> Tile:
        new = self.largest(s)
        # Of a row that has seen no key yet, the largest score is -inf: subtract 0 from its scores.
        base = cute.where(new == -cute.inf, 0.0, new)
        p = self.exponentials(s, base)
        r = cute.exp2(self.m - base)
        rounded = p.to(self.weights.dtype)
        self.add_up(p, rounded, is_cut, r)
        self.o.assign(self.o * r)
        self.m.assign(new)
        return rounded


class Lazy(OnlineSoftmax):
    """Exponentials count from a score that is hardly less than the largest so far."""

    is_bounded = True

    def weigh(self, s: Tile, trip: Scalar, first: Block, is_cut: Scalar) -> Tile:
        o, m, dtype = self.o, self.m, self.weights.dtype
        new = self.largest(s)
        r = cute.full((self.tile[0], 1), 1.0)
        slack = _SLACK.get(dtype.name)
        # The other rows of a warp keep their m.
        grown = ~(new <= m) if slack is None else self.exceeds(new, slack)
        some = cute.any_(grown, local=True)
        with when(some):
            r.assign(cute.where(grown, cute.exp2(m - new), 1.0))
            m.assign(cute.where(grown, new, m))
        p = self.exponentials(s, cute.where(m == -cute.inf, 0.0, m))
        # What no sum takes is rounded behind the scaling, which waits for the multiply before.
        rounded = p.to(dtype) if self.weights.is_rounded else None
        self.add_up(p, rounded, is_cut, r)
        with when(some):
            o.assign(o * r)
        return p.to(dtype) if rounded is None else rounded


class LazyRows(Lazy):
    """Each row decides for itself: for threads that have whole rows, where another role has `o` and
    looks at what rows are multiplied by. Exponentials may lose a NaN, which `m` keeps.
    """

    def begin(self) -> None:
        # No key seen yet is a number too, from which others can be subtracted.
        self.m = cute.full((self.tile[0], 1), _LOWEST)

    def exponentials(self, s: Tile, base: Tile) -> Tile:
        if self.weights.has_logarithms:
            return super().exponentials(s, base)
        return self.scores.exponentials(s, base, self.weights.shift, rough_exp2)

    def result(self) -> tuple[Tile, Tile]:
        o, total = super().result()
        return o, cute.where(self.m < cute.inf, total, math.nan)

    def weigh(self, s: Tile, trip: Scalar, first: Block, is_cut: Scalar) -> Tile:
        o, m = self.o, self.m
        new = self.largest(s)
        r = cute.exp2(m - new)
        if self.weights.dtype.bits == 8:
            grown = ~(r >= 1.0)
        else:
            grown = ~(r * cute.minimum(self.total, _MOST_UNROUNDED) >= 1.0)
        r = cute.where(grown, r, 1.0)
        m.assign(cute.where(grown, new, m))
        p = self.exponentials(s, m)
        self.add_up(p, None, is_cut, r)
        with when(cute.any_(r != 1.0, local=True)):
            o.assign(o * r)
        return p.to(self.weights.dtype)


class Guessed(OnlineSoftmax):
    """Exponentials count from the score that those of the blocks before did. The first block of a
    tile looks for the largest score.
    """

    def weigh(self, s: Tile, trip: Scalar, first: Block, is_cut: Scalar) -> Tile:
        rounded, r = cute.zeros(self.tile, self.weights.dtype), cute.zeros((self.tile[0], 1))
        with when(trip == first):
            self.settle(s, self.largest(s), rounded, is_cut, r)
        with otherwise():
            p = self.exponentials(s, cute.maximum(self.m, _LOWEST))
            rounded.assign(p.to(self.weights.dtype))
            holds = self._holds(p, rounded, is_cut)
            fails = cute.any_(~holds, local=True)
            with when(fails):
                self.settle(s, self._grown(s, holds), rounded, is_cut, r)
            with otherwise():
                self.add_up(p, rounded, is_cut)
            with when(fails):
                self.o.assign(self.o * r)
        return rounded

    def _holds(self, p: Tile, rounded: Tile, is_cut: Scalar) -> Tile:
        """Where exponentials are not too large."""
        if self.weights.has_bit:
            return cute.abs_(rounded) < _TOO_MUCH
        most = _MOST.get(self.weights.dtype.name, _MOST_SMALL)
        holds = self.weights.own_sums(p, rounded, is_cut) <= most
        if self.plain is not self.total:
            # Both sums are there before the branch, which then holds no exponentials.
            holds = holds & (cute.row_sum(p, local=True) <= most)
        return holds

    def _grown(self, s: Tile, holds: Tile) -> Tile:
        """The scores to count from. Only rows with a part that is too much have others: none
        depends on its neighbors.
        """
        if self.weights.has_bit:
            new = self.largest(s)
            return cute.where(
                new <= self.m + (math.log2(_TOO_MUCH) - self.weights.shift), self.m, new
            )
        late = cute.row_max(cute.where(holds, -cute.inf, s))
        return cute.where(late == -cute.inf, self.m, self.largest(s))


class Wary(OnlineSoftmax):
    """Exponentials of f16 that count from a guess. What `m` is depends on the row alone: the
    largest score of the first blocks, or the one that has left it behind. A warp `looks` for that
    ahead of the exponentials in these, and in all others once the last of them or a sum says that
    its rows grow; until then sums show whether it has to.
    """

    def begin(self) -> None:
        # No other policy has such a tile: a role plan that splits what warps do would take it for
        # a part of that.
        self.looks = cute.full((self.tile[0], 1), True, i1)

    def weigh(self, s: Tile, trip: Scalar, first: Block, is_cut: Scalar) -> Tile:
        rounded, r = cute.zeros(self.tile, self.weights.dtype), cute.full((self.tile[0], 1), 1.0)
        with when(cute.any_(self.looks, local=True)):
            self._look(s, trip, first, r)
            p = self.exponentials(s, cute.maximum(self.m, _LOWEST))
            rounded.assign(p.to(self.weights.dtype))
            self.add_up(p, rounded, is_cut, r)
        with otherwise():
            p = self.exponentials(s, cute.maximum(self.m, _LOWEST))
            rounded.assign(p.to(self.weights.dtype))
            sums = [self.weights.own_sums(p, rounded, is_cut)]
            if self.plain is not self.total:
                # Both are there before the branch, which then holds no exponentials.
                sums.append(cute.row_sum(p, local=True))
            with when(cute.any_(~self._hold(sums, _HINT), local=True)):
                self.looks.assign(cute.full((self.tile[0], 1), True, i1))
                with when(cute.any_(~self._hold(sums, _MOST_LEFT), local=True)):
                    new = self.largest(s)
                    new = cute.where(self.exceeds(new, _FAR), new, self.m)
                    self.settle(s, new, rounded, is_cut, r)
                with otherwise():
                    self.add_up(p, rounded, is_cut)
            with otherwise():
                self.add_up(p, rounded, is_cut)
        with when(cute.any_(r != 1.0, local=True)):
            self.o.assign(self.o * r)
        return rounded

    def _look(self, s: Tile, trip: Scalar, first: Block, r: Tile) -> None:
        """Let `m` be the largest score where that has left it behind, and `r` what scales."""
        new = self.largest(s)
        left_behind = self.exceeds(new, (trip >= first + FIRST_BLOCKS).to(f32) * _FAR)
        is_last = trip != first + (FIRST_BLOCKS - 1)
        self.looks.assign(self.exceeds(new, _NEAR) | is_last)
        with when(cute.any_(left_behind, local=True)):
            r.assign(cute.where(left_behind, cute.exp2(self.m - new), 1.0))
            self.m.assign(cute.where(left_behind, new, self.m))

    def _hold(self, sums: Sequence[Tile], by: float) -> Tile:
        """Whether the sums of a thread's exponentials are 2^by of the first ones at most."""
        limits = [part <= 2.0 ** (by + self.weights.shift) for part in sums]
        return limits[0] if len(limits) == 1 else limits[0] & limits[1]


POLICIES: dict[str, type[OnlineSoftmax]] = {"exact": Exact, "lazy": Lazy, "guessed": Guessed}


def policy_of(maxima: str, element: DType, sums: str = "registers") -> type[OnlineSoftmax]:
    """The policy of that name for exponentials of a type, which are added up as `sums` says."""
    if maxima == "lazy" and sums == "unrounded":
        return LazyRows
    return Wary if maxima == "guessed" and element == f16 else POLICIES[maxima]
