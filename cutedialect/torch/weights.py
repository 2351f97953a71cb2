"""Gradients that go through weights of 8 and 4 bits: dA = (G s) (Q - z)^T, a product for each group
of rows that share scales s and zeros z, by the same operator on the same integers.
"""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cutedialect.frontend.gemm_scales import BLOCK, GROUPS
from cutedialect.frontend.packed import packing_from

from .operators import element_type

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class Weights:
    """How the integers of an operand stand for weights. `factors` are the tensors of scales and
    zeros, of which `has` says which ones there are; the rest is numbers and words.
    """

    packed: str | None
    zero: float
    has: tuple[bool, bool]
    factors: tuple[Any, ...]

    def through(
        self,
        operator: Any,
        gradient: Any,
        a: Any,
        b: Any,
        factors: Sequence[Any],
        options: dict[str, Any],
    ) -> Any:
        """The gradient of a, from that of a product a b."""
        given = iter(factors)
        scale, zero = (next(given) if is_there else None for is_there in self.has)
        k, n = a.shape[-1], gradient.shape[-1]

        def rows_of(at: tuple[int, int]) -> tuple[Any, Any]:
            return _row(scale, at, k, n), _row(zero, at, k, n)

        parts = [
            self._part(operator, gradient, b, *rows_of(at), at, a.dtype, options)
            for at in _groups(k, scale, zero)
        ]
        product = torch.cat(parts, -1)
        summed = product if product.shape == a.shape else product.sum_to_size(a.shape)
        return summed.to(a.dtype)

    def _part(
        self,
        operator: Any,
        gradient: Any,
        b: Any,
        scale: Any,
        zero: Any,
        rows: tuple[int, int],
        dtype: Any,
        options: dict[str, Any],
    ) -> Any:
        """The columns of the gradient of a that some rows of b have been multiplied with."""
        first, end = rows
        slopes = gradient if scale is None else gradient * scale
        slopes, turned = slopes.to(dtype).contiguous(), None
        per = 1
        if self.packed is not None:
            kind, axis, *order = self.packed.split()
            turned = " ".join((kind, "-1" if int(axis) % b.dim() == b.dim() - 2 else "-2", *order))
            packing = packing_from(self.packed, element_type(b.dtype, "b"), b.dim())
            per = packing.per if packing.axis == b.dim() - 2 else 1
        integers = b[..., first // per : -(-end // per), :].mT
        product = operator.entry(
            slopes, integers, out_dtype=torch.float32, zero_b=self.zero or None, packed_b=turned,
            **options,
        )[..., : end - first]  # fmt: skip
        if zero is None:
            return product
        moved = (slopes.float() * zero.float()).sum(-1, keepdim=True)
        return product - options.get("alpha", 1.0) * moved


def weights_of(operator: Any, given: Any, bs: Sequence[Any]) -> Weights | None:
    """The weights that an operand of integers is; None of another, and of one whose scales have no
    gradient here. Refuses those of several products.
    """
    is_plain = given.packed_b is None and given.zero_b is None and given.zero_number == 0
    if operator.call.is_of_lists:
        if not is_plain:
            raise ValueError(
                "zero_b, packed_b: expected None where a gradient of several products is required, "
                "got weights with a zero or packed ones; take cutedialect.torch.gemm for each"
            )
        return None
    if bs[0].dtype in _FLOATS or given.scale_a is not None:
        return None
    factors = given.scale_b, given.zero_b
    if any(each is not None and each.requires_grad for each in factors):
        return None
    has = factors[0] is not None, factors[1] is not None
    there = tuple(each for each in factors if each is not None)
    return Weights(given.packed_b, given.zero_number, has, there)


def _groups(k: int, *factors: Any) -> list[tuple[int, int]]:
    """The rows that share scales and zeros, from the first one to the end of each group."""
    counts = [x.shape[-2] for x in factors if x is not None and x.dim() > 1 and x.shape[-2] > 1]
    if not counts:
        return [(0, k)]
    size = _size(k, max(counts))
    return [(first, min(first + size, k)) for first in range(0, k, size)]


def _size(k: int, count: int) -> int:
    """The rows of a group of which there are so many."""
    return next(size for size in GROUPS if -(-k // size) == count)


def _row(factor: Any, rows: tuple[int, int], k: int, n: int) -> Any:
    """The scales or zeros of all columns for some rows."""
    if factor is None or factor.dim() < 2:
        return factor
    if factor.shape[-2] > 1:
        factor = factor[..., rows[0] // _size(k, factor.shape[-2]), :].unsqueeze(-2)
    if factor.shape[-1] in (1, n):
        return factor
    return factor.repeat_interleave(BLOCK, -1)[..., :n]
