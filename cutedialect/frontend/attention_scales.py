"""The scales of `cute.attention`: what multiplies the elements of q, k and v, for all heads or for
each one. Numbers of the host join the scale of the scores; arrays are read by the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .attention_views import share_heads, split_heads
from .dtypes import f32
from .gemm_operands import expanded
from .gemm_scales import number_of
from .rules import as_operand, shown

NAMES = ("scale_q", "scale_k", "scale_v")
_NO_SCALES = (None, None, None)


@dataclass(frozen=True)
class HeadScales:
    """The scales of q, k and v: `numbers` has 1 where there is an array or nothing, `ranks` the
    rank of each array, 0 where there is none.
    """

    numbers: tuple[float, float, float]
    ranks: tuple[int, int, int]

    @property
    def of_rows(self) -> bool:
        """Whether heads of q that share one of k and v have scales of their own."""
        return self.ranks[0] > 0

    def arguments(
        self,
        values: Sequence[Any],
        batch: int | None,
        heads: int,
        group: int,
        shares: bool = True,
    ) -> list[Any]:
        """What the tile program takes: tensors (batch, heads...) as those of its tiles, and None.

        `heads` are those of k and v, of which each serves a group of q's. With `shares` scales of k
        and v have a mode of the group, too.
        """
        result: list[Any] = []
        for place, (value, rank) in enumerate(zip(values, self.ranks, strict=True)):
            if rank == 0:
                result.append(None)
                continue
            mine = heads * group if place == 0 else heads
            whole = value if rank == 2 else expanded(value, (batch, mine))
            if group > 1:
                if place == 0:
                    whole = split_heads(whole, heads)
                elif shares:
                    whole = share_heads(whole, group)
            result.append(whole)
        return result


def split_scales(values: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """(arrays, numbers) of the three scales, None where one is of the other kind."""
    of_q, of_k, of_v = values
    if of_q is None and of_k is None and of_v is None:
        return _NO_SCALES, _NO_SCALES
    numbers = tuple(number_of(value) for value in values)
    arrays = tuple(
        None if number is not None else value for value, number in zip(values, numbers, strict=True)
    )
    return arrays, numbers


def head_scales(
    values: Sequence[Any], batch: int | None, heads: Sequence[int | None]
) -> HeadScales:
    """The scales of q, k and v with so many `heads` each.

    Raises TypeError or ValueError naming the argument that is no positive number and no array of
    f32, one for each head (H,) or for each head of each batch entry (B, H).
    """
    numbers, ranks = [], []
    for value, name, count in zip(values, NAMES, heads, strict=True):
        number = number_of(value)
        ranks.append(0)
        numbers.append(1.0 if number is None else number)
        if number is not None and not (number > 0 and math.isfinite(number)):
            raise ValueError(f"{name}: expected a positive number, got {number}")
        if number is not None or value is None:
            continue
        given = as_operand(value, name)
        if given.dtype != f32:
            raise TypeError(f"{name}: expected f32, got {given.dtype.name}")
        wanted = (batch, count)
        rank = len(given.shape)
        if rank not in (1, 2) or any(
            None not in (x, y) and x != y for x, y in zip(given.shape, wanted[-rank:], strict=True)
        ):
            raise ValueError(
                f"{name}: expected a number, {shown((count,))} or {shown(wanted)} for each head, "
                f"got shape {shown(given.shape)}"
            )
        ranks[-1] = rank
    return HeadScales(tuple(numbers), tuple(ranks))  # type: ignore[arg-type]
