"""The scales of `cute.attention`: what multiplies the elements of q, k and v, for all heads, for
each one, or of k and v for each key or page. Numbers of the host join the scale of the scores;
arrays are read by the kernel.
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
OF_KEYS = 3
"""The rank of scales of keys."""


@dataclass(frozen=True)
class HeadScales:
    """The scales of q, k and v: `numbers` has 1 where there is an array or nothing, `ranks` the
    rank of each array, 0 where there is none, and `spans` says where one of rank 3 has a scale for
    all keys of a batch entry or page.
    """

    numbers: tuple[float, float, float]
    ranks: tuple[int, int, int]
    spans: tuple[bool, bool, bool] = (False, False, False)

    @property
    def of_rows(self) -> bool:
        """Whether heads of q that share one of k and v have scales of their own."""
        return self.ranks[0] > 0

    def shapes(
        self, batch: Any, heads: Sequence[Any], keys: Sequence[Any]
    ) -> list[tuple[Any, ...] | None]:
        """Those of the arrays, None where there is none, of `heads` of q, k and v, and `keys`
        (batch or pages, heads, keys...).
        """
        of_keys = [(*keys[:2], 1 if is_span else keys[2]) for is_span in self.spans]
        of_heads = [(batch, count) for count in heads]
        return [
            shape if rank == OF_KEYS else row[-rank:] if rank else None
            for rank, row, shape in zip(self.ranks, of_heads, of_keys, strict=True)
        ]

    def arguments(
        self,
        values: Sequence[Any],
        batch: int | None,
        heads: int,
        group: int,
        shares: bool = True,
        keys: Sequence[int | None] = (),
    ) -> list[Any]:
        """What the tile program takes: tensors (batch, heads...) as those of its tiles, with a mode
        of keys where these have scales, and None.

        `heads` are those of k and v, of which each serves a group of q's. With `shares` scales of k
        and v have a mode of the group, too. `keys` is (batch or pages, heads, keys).
        """
        result: list[Any] = []
        for place, (value, rank) in enumerate(zip(values, self.ranks, strict=True)):
            if rank == 0:
                result.append(None)
                continue
            mine = heads * group if place == 0 else heads
            whole = value if rank > 1 else expanded(value, (batch, mine))
            if self.spans[place]:
                whole = expanded(whole, tuple(keys))
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
    values: Sequence[Any],
    batch: int | None,
    heads: Sequence[int | None],
    keys: Sequence[int | None] | None = None,
) -> HeadScales:
    """The scales of q, k and v with so many `heads` each. Those of k and v may be one for each of
    `keys`, (batch or pages, heads, keys), where these are given.

    Raises TypeError or ValueError naming the argument that is no positive number and no array of
    f32, one for each head (H,), for each head of each batch entry (B, H), or of each key
    (B, Hk, Sk), (pages, Hk, page size), with 1 in the place of the keys for all of them.
    """
    numbers, ranks, spans = [], [], []
    for value, name, count in zip(values, NAMES, heads, strict=True):
        number = number_of(value)
        ranks.append(0)
        spans.append(False)
        numbers.append(1.0 if number is None else number)
        if number is not None and not (number > 0 and math.isfinite(number)):
            raise ValueError(f"{name}: expected a positive number, got {number}")
        if number is not None or value is None:
            continue
        given = as_operand(value, name)
        if given.dtype != f32:
            raise TypeError(f"{name}: expected f32, got {given.dtype.name}")
        of_heads, of_keys = [(count,), (batch, count)], []
        if name != NAMES[0] and keys is not None:
            of_keys = [tuple(keys), (*keys[:2], 1)]
        if not any(_fits(given.shape, shape) for shape in (*of_heads, *of_keys)):
            more = f", {_either(of_keys)} for keys" if of_keys else ""
            raise ValueError(
                f"{name}: expected a number, {_either(of_heads)} for each head{more}, got shape "
                f"{shown(given.shape)}"
            )
        ranks[-1] = len(given.shape)
        spans[-1] = ranks[-1] == OF_KEYS and given.shape[-1] == 1
    return HeadScales(tuple(numbers), tuple(ranks), tuple(spans))  # type: ignore[arg-type]


def _either(shapes: Sequence[Sequence[int | None]]) -> str:
    return " or ".join(map(shown, shapes))


def _fits(shape: Sequence[int | None], wanted: Sequence[int | None]) -> bool:
    """Whether extents that are known are the same."""
    return len(shape) == len(wanted) and all(
        None in pair or pair[0] == pair[1] for pair in zip(shape, wanted, strict=True)
    )
