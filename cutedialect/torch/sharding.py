"""What DTensor may do with the operators: which dimensions of tensors and results are parted alike,
so that each rank computes its part, and torch's own communication brings what is elsewhere.
Products are parted by rows, columns, batch and K (whose parts are sums to be added), attention by
batch, heads and, where no mask counts rows, by rows of queries. `torch.distributed.tensor` is
imported by whoever has a DTensor; the rules are registered at the first one.
"""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import torch

# A placement of each result, and one of each argument, by name; None stands for whole.
Rule = tuple[Sequence[Any], Mapping[str, Any]]


def holds_dtensor(tensors: Iterable[Any]) -> bool:
    """Whether one of them is a DTensor, without importing what has that class."""
    return any(type(each).__name__ == "DTensor" for each in tensors)


@cache
def register() -> None:
    """Give DTensor the rules of all operators; raises ImportError where torch has no such part."""
    from torch.distributed.tensor.experimental import register_sharding

    for name, rules in _RULES.items():
        operator = getattr(torch.ops.cutedialect, name).default
        names = [argument.name for argument in operator._schema.arguments]
        outputs = len(operator._schema.returns)
        register_sharding(operator)(_strategy(names, outputs, rules))


def _strategy(
    names: Sequence[str], outputs: int, rules: Callable[[Mapping[str, Any]], list[Rule]]
) -> Callable[..., list[tuple[list[Any], list[Any]]]]:
    """The function that DTensor asks: acceptable placements of results and arguments."""

    def acceptable(*values: Any, **more: Any) -> list[tuple[list[Any], list[Any]]]:
        from torch.distributed.tensor import Replicate

        given = dict(zip(names, values, strict=False)) | more
        found: list[tuple[list[Any], list[Any]]] = []
        for results, placed in [([None] * outputs, {}), *rules(given)]:
            arguments = [
                (placed.get(name) or Replicate()) if hasattr(value, "shape") else None
                for name, value in zip(names, values, strict=False)
            ]
            found.append(([each or Replicate() for each in results[:outputs]], arguments))
        return found

    return acceptable


def _of_product(given: Mapping[str, Any]) -> list[Rule]:
    """Of gemm: a (..., M, K), b (..., K, N), c (..., M, N), bias (N,)."""
    from torch.distributed.tensor import Partial, Shard

    a, b, c = given["a"], given["b"], given.get("c")
    scales = [given.get(name) for name in ("scale_a", "scale_b")]
    if any(scale is not None and _size(scale) != 1 for scale in scales):
        return []  # they lie along rows, columns or blocks of K
    left, right = len(a.shape), len(b.shape)
    rank = max(left, right)

    def of_c(mode: int) -> Any:
        """The placement of c where a mode of the result, from its end, is parted."""
        place = -1 if c is None else len(c.shape) + mode
        return Shard(place) if c is not None and place >= 0 and c.shape[mode] != 1 else None

    rules: list[Rule] = [
        ([Shard(rank - 2)] * 2, {"a": Shard(left - 2), "c": of_c(-2)}),
        (
            [Shard(rank - 1)] * 2,
            {"b": Shard(right - 1), "c": of_c(-1), "bias": Shard(0)},
        ),
    ]
    for mode in range(-rank, -2):
        parted = {
            name: Shard(len(x.shape) + mode)
            for name, x in (("a", a), ("b", b))
            if len(x.shape) + mode >= 0 and x.shape[mode] != 1
        }
        rules.append(([Shard(rank + mode)] * 2, parted | {"c": of_c(mode)}))
    adds = given.get("bias") is not None or (c is not None and given.get("beta"))
    if not adds and given.get("activation") is None:
        rules.append(([Partial()] * 2, {"a": Shard(left - 1), "b": Shard(right - 2)}))
    return rules


def _of_attention(given: Mapping[str, Any]) -> list[Rule]:
    """Of attention: q (B, H, Sq, D), k and v (B, Hk, Sk, D), results (B, H, Sq, ...)."""
    from torch.distributed.tensor import Shard

    packed = ("q_offsets", "k_offsets", "block_table", "scale_q", "scale_k", "scale_v")
    if any(given.get(name) is not None for name in packed):
        return []
    heads, shared = given["q"].shape[1], given["k"].shape[1]
    batch = {name: Shard(0) for name in ("q", "k", "v", "lengths")}
    rules: list[Rule] = [([Shard(0)] * 2, batch)]
    # Ranks have whole groups of heads that share keys: as many of either kind.
    ranks = _ranks(given["q"])
    if all(heads % count == 0 and shared % count == 0 for count in ranks):
        rules.append(([Shard(1)] * 2, {name: Shard(1) for name in ("q", "k", "v")}))
    if not given.get("causal") and given.get("window") is None:
        rules.append(([Shard(2)] * 2, {"q": Shard(2)}))
    return rules


def _size(tensor: Any) -> int:
    size = 1
    for extent in tensor.shape:
        size *= extent
    return size


def _ranks(tensor: Any) -> tuple[int, ...]:
    """The extents of the mesh that a tensor is on."""
    return tuple(tensor.mesh.shape)


_RULES = {
    "gemm": _of_product,
    "gemm_aux": _of_product,
    "attention": _of_attention,
    "attention_lse": _of_attention,
}
