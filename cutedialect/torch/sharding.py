"""What DTensor may do with the operators: which dimensions of tensors and results are parted alike,
so that each rank computes its part, and torch's own communication brings what is elsewhere. That
follows from the declarations: their modes, and which of these devices may part.
`torch.distributed.tensor` is imported by whoever has a DTensor; the rules are registered at the
first one.
"""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch

from cutedialect.frontend.declarations import CALLS
from cutedialect.frontend.signature import BATCH, Call, Part

# A placement of each result, and one of each argument, by name; None stands for whole.
Rule = tuple[Sequence[Any], Mapping[str, Any]]


def holds_dtensor(tensors: Iterable[Any]) -> bool:
    """Whether one of them is a DTensor, without importing what has that class."""
    return any(type(each).__name__ == "DTensor" for each in tensors)


@cache
def register() -> None:
    """Give DTensor the rules of all operators; raises ImportError where torch has no such part."""
    from torch.distributed.tensor.experimental import register_sharding

    parted = ((call, more) for call in CALLS if call.parts for more, _ in call.operators())
    for call, more in parted:
        name = f"{call.name}_{more}" if more else call.name
        operator = getattr(torch.ops.cutedialect, name).default
        results = [each.name for each in call.outputs if not each.asked] + [more] * bool(more)
        names = [argument.name for argument in operator._schema.arguments]
        register_sharding(operator)(_strategy(names, call, results))


def _strategy(
    names: Sequence[str], call: Call, results: Sequence[str]
) -> Callable[..., list[tuple[list[Any], list[Any]]]]:
    """The function that DTensor asks: acceptable placements of results and arguments."""

    def acceptable(*values: Any, **more: Any) -> list[tuple[list[Any], list[Any]]]:
        from torch.distributed.tensor import Replicate

        given = dict(zip(names, values, strict=False)) | more
        found: list[tuple[list[Any], list[Any]]] = []
        for made, placed in [([None] * len(results), {}), *rules(call, results, given)]:
            arguments = [
                (placed.get(name) or Replicate()) if hasattr(value, "shape") else None
                for name, value in zip(names, values, strict=False)
            ]
            found.append(([each or Replicate() for each in made], arguments))
        return found

    return acceptable


def rules(call: Call, results: Sequence[str], given: Mapping[str, Any]) -> Iterator[Rule]:
    """The placements of a call with some arguments, for each part of it that holds."""
    arrays = {
        each.name: (tuple(given[each.name].shape), each.modes.split())
        for each in call.arrays
        if each.modes and hasattr(given.get(each.name), "shape")
    }
    modes = {each.name: each.modes.split() for each in (*call.arrays, *call.outputs)}
    extents = _extents(arrays.values())
    rank = max(len(shape) for shape, _ in arrays.values())
    ranks = {count for value in given.values() for count in _mesh(value)}
    for part in call.parts:
        if not part.holds(given) or not _is_shared(part, extents, ranks):
            continue
        for wanted in range(-rank, 0) if BATCH in part.modes else (None,):
            placed = {
                name: _shard(shape, named, part, wanted, extents)
                for name, (shape, named) in arrays.items()
            }
            if not any(placed.values()):
                continue
            made = [
                _result(modes[name], part, wanted, rank) if _is_wanted(name, given) else None
                for name in results
            ]
            yield made, placed


def _extents(arrays: Iterable[tuple[tuple[int, ...], list[str]]]) -> dict[str, int]:
    """The extent of each mode; an array that has 1 in its place is broadcast."""
    extents: dict[str, int] = {}
    for shape, named in arrays:
        own = [mode for mode in named if mode != BATCH]
        for mode, extent in zip(own, shape[len(shape) - len(own) :], strict=True):
            extents[mode] = max(extent, extents.get(mode, extent))
    return extents


def _is_shared(part: Part, extents: Mapping[str, int], ranks: Iterable[int]) -> bool:
    """Whether ranks have whole shares of several modes: as many heads of either kind."""
    if len(part.modes) == 1:
        return True
    return all(extents.get(mode, 0) % count == 0 for mode in part.modes for count in ranks)


def _shard(
    shape: tuple[int, ...],
    named: list[str],
    part: Part,
    wanted: int | None,
    extents: Mapping[str, int],
) -> Any:
    """How an argument is placed where a part is shared, None for whole: `wanted` is the place of a
    batch mode from the end of the result.
    """
    from torch.distributed.tensor import Shard

    own = len(named) - (BATCH in named)
    if wanted is not None:
        place = len(shape) + wanted
        is_batch = BATCH in named and 0 <= place < len(shape) - own
        return Shard(place) if is_batch and shape[place] != 1 else None
    for mode in part.modes:
        if mode in named:
            place = len(shape) - len(named) + named.index(mode)
            return None if shape[place] == 1 != extents[mode] else Shard(place)
    return None


def _result(named: list[str], part: Part, wanted: int | None, rank: int) -> Any:
    """How a result is placed: one that lacks what is parted is a sum."""
    from torch.distributed.tensor import Partial, Shard

    own = len(named) - (BATCH in named)
    if wanted is not None:
        return Shard(rank + wanted)
    for mode in part.modes:
        if mode in named:
            return Shard((rank if BATCH in named else len(named)) - len(named) + named.index(mode))
    return Partial() if own else None


def _is_wanted(name: str, given: Mapping[str, Any]) -> bool:
    """Whether a result has elements: of gradients only those that are asked for."""
    wanted = given.get("wanted")
    return wanted is None or name.removeprefix("d") in wanted


def _mesh(value: Any) -> tuple[int, ...]:
    """The extents of the mesh that a tensor is on."""
    return tuple(value.mesh.shape) if hasattr(value, "mesh") else ()
