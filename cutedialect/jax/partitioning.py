"""Calls on arrays that several devices share: which dimensions of the arguments and results are one
factor, in the words of Shardy's rules, so that XLA gives each device its part of a factor instead
of all of every array.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import jax  # pyright: ignore[reportMissingImports]

Factors = tuple[str, ...]
"""The factors of an array, one for each dimension. One that is in no result is whole on a device. A
dimension of two, "(h g)", is parted where the devices' parts are whole ones of the first.
"""


@dataclass(frozen=True)
class Rule:
    """The factors of each argument and result, those of results that stay whole, and the extents of
    factors of which "(h g)" is made.
    """

    arguments: tuple[Factors, ...]
    results: tuple[Factors, ...]
    whole: frozenset[str] = frozenset()
    sizes: tuple[tuple[str, int], ...] = ()
    extents: Mapping[str, int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "extents", dict(self.sizes))

    def apply(self, call: Callable[..., list[Any]]) -> Callable[..., Any]:
        """`call`, of arrays, for whole arrays or for the parts of a device, whichever it is traced
        for.
        """
        from jax.experimental.custom_partitioning import (  # pyright: ignore[reportMissingImports]
            custom_partitioning,
        )

        def partition(mesh: Any, given: Any, made: Any) -> tuple[Any, Any, Any, Any]:
            del given
            axes = self._axes(mesh, made)
            results, arguments = (
                tuple(_sharding(mesh, [axes.get(factor) for factor in each]) for each in arrays)
                for arrays in (self.results, self.arguments)
            )
            return mesh, call, list(results), arguments

        parted = custom_partitioning(lambda *arrays: call(*arrays))
        used, made = (list(_factors(arrays)) for arrays in (self.arguments, self.results))
        # In the order in which they appear.
        whole = [factor for factor in used if factor not in made or factor in self.whole]
        alone = {factor for each in (*self.arguments, *self.results) for factor in each}
        sizes: dict[str, Any] = {
            factor: self.extents[factor] for factor in used if factor not in alone
        }
        parted.def_partition(
            partition,
            sharding_rule=f"{_text(self.arguments)} -> {_text(self.results)}",
            need_replication_factors=tuple(whole),
            **sizes,
        )
        # JAX has no rule of its own for the call under vmap. What is called outside of jit is
        # compiled, too: op by op each would get whole arrays.
        return jax.jit(jax.custom_batching.sequential_vmap(parted))

    def _axes(self, mesh: Any, made: Any) -> dict[str, Any]:
        """The axes of the mesh that part a factor."""
        axes: dict[str, Any] = {}
        for factors, result in zip(self.results, made, strict=True):
            spec = getattr(result.sharding, "spec", ())
            parts = [*spec, *[None] * (len(factors) - len(spec))]
            for factor, part in zip(factors, parts, strict=True):
                names = part if isinstance(part, tuple) else () if part is None else (part,)
                first = re.findall(r"\w+", factor)[0]
                count = prod(mesh.shape[name] for name in names)
                # Shardy parts what it is told to leave whole where an operand is parted.
                if factor in self.whole or (first != factor and self.extents[first] % count):
                    part = None
                axes[factor] = axes[first] = part
        return axes


def _factors(arrays: tuple[Factors, ...]) -> dict[str, None]:
    """Each factor once."""
    return dict.fromkeys(re.findall(r"\w+", _text(arrays)))


def _text(arrays: tuple[Factors, ...]) -> str:
    return ", ".join(" ".join(factors) for factors in arrays)


def _sharding(mesh: Any, axes: list[Any]) -> Any:
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))
