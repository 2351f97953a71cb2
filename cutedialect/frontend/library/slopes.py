"""What the scores of attention become in its backward pass: weights again, and slopes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cutedialect.frontend import functions as cute
from cutedialect.frontend.scalar import Scalar
from cutedialect.frontend.tile import Tensor, Tile

# Of a head of zeros a scale may be 0, which would make a number of what a mask hides.
_LEAST_SCALE = 1e-30


@dataclass(frozen=True)
class Slopes:
    """`scale` makes scores, in units of log2(e), of the products of Q and K; with `cap`, in the
    same units, the tangents' arguments. `factor_q` multiplies the slopes of a head, `factor_v` its
    values.
    """

    scale: Scalar
    cap: Scalar | None
    factor_q: Scalar | None
    factor_v: Scalar | None

    def of_head(
        self,
        scale_q: Tensor | None,
        scale_k: Tensor | None,
        scale_v: Tensor | None,
        row_head: tuple[Scalar | int, ...],
        key_head: tuple[Scalar | int, ...],
    ) -> Slopes:
        """These with the factors of a head of rows and one of keys."""
        scale, factor_v = self.scale, self.factor_v
        factor_q = None if scale_q is None else scale_q[row_head]
        if factor_q is not None:
            scale = scale * factor_q
        if scale_k is not None:
            scale = scale * scale_k[key_head]
        if scale is not self.scale:
            scale = cute.maximum(scale, _LEAST_SCALE)
        if scale_v is not None:
            factor_v = scale_v[key_head]
        return replace(self, scale=scale, factor_q=factor_q, factor_v=factor_v)

    def weigh(self, s: Tile, logarithms: Tile) -> Tile | None:
        """Let scores become exponentials above the logarithms (of base 2) of rows. Returns the
        tangents of capped scores, for the slopes.
        """
        if self.cap is None:
            s.assign(cute.exp2(s * self.scale - logarithms))
            return None
        tangents = cute.tanh(s * self.scale)
        s.assign(cute.exp2(tangents * self.cap - logarithms))
        return tangents

    @staticmethod
    def bend(p: Tile, tangents: Tile | None) -> None:
        """Let weights that nothing else reads become those times the slopes of the tangents, which
        take no registers then while the products of dO and V are awaited.
        """
        if tangents is not None:
            p.assign(p * (1.0 - tangents * tangents))

    def slope(self, dp: Tile, p: Tile, tangents: Tile | None, delta: Tile) -> None:
        """Let the products of dO and V become the slopes of the loss along the products of Q and K,
        but for the factor of scores. `tangents` are None of scores without a cap, and of weights
        that `bend` has taken.
        """
        ds = p * ((dp if self.factor_v is None else dp * self.factor_v) - delta)
        if tangents is not None:
            ds = ds * (1.0 - tangents * tangents)
        dp.assign(ds if self.factor_q is None else ds * self.factor_q)
