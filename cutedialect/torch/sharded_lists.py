"""`grouped_gemm` of DTensors. DTensor's dispatch has no strategies for lists, so the placements of
each problem are chosen here, by the rules that `gemm` has: each rank multiplies its parts of all
problems in one launch, and the communication is torch's redistribution of what is elsewhere.
"""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cutedialect.frontend.declarations import GEMM, LISTED_NAMES, SINGLE_NAMES

from .sharding import rules

# The lists that are written; a rank's parts of them would be new tensors.
_WRITTEN = ("out", "aux")
# The list of the operands that say how many problems there are, and on which mesh.
_FIRST = "as_"


def shared_lists(function: Callable[..., list[Any]], named: Mapping[str, Any]) -> list[Any]:
    """The results of `function`, a call of lists of DTensors with these arguments, as DTensors.

    Raises TypeError for a tensor that is none, and ValueError for lists to write or other meshes.
    """
    from torch.distributed.tensor import DTensor

    lists = {name: value for name, value in named.items() if isinstance(value, list | tuple)}
    for name in _WRITTEN:
        if name in lists:
            raise ValueError(f"{name}: expected None beside DTensors, got a list; take the result")
    mesh = lists[_FIRST][0].device_mesh
    for name, tensors in lists.items():
        for place, tensor in enumerate(tensors):
            if not isinstance(tensor, DTensor):
                raise TypeError(
                    f"{name}[{place}]: expected a DTensor beside others, got a {type(tensor)}; "
                    "take distribute_tensor(tensor, mesh, [Replicate()])"
                )
            if tensor.device_mesh != mesh:
                raise ValueError(
                    f"{name}[{place}]: expected the mesh of {_FIRST}[0], {mesh}, got "
                    f"{tensor.device_mesh}"
                )
    problems = [
        _Problem({name: tensors[place] for name, tensors in lists.items()}, named)
        for place in range(len(lists[_FIRST]))
    ]
    parts = {name: [problem.part(name) for problem in problems] for name in lists}
    results = function(**{**named, **parts})
    return [problem.whole(result) for problem, result in zip(problems, results, strict=True)]


class _Problem:
    """A problem of the lists: its arrays, and their placements on each dimension of the mesh."""

    def __init__(self, arrays: Mapping[str, Any], named: Mapping[str, Any]) -> None:
        from torch.distributed.tensor import Partial, Replicate

        self.arrays = arrays
        self.mesh = arrays[_FIRST].device_mesh
        given = {SINGLE_NAMES.get(name, name): value for name, value in {**named, **arrays}.items()}
        self.shape = GEMM.result_shapes({name: tuple(given[name].shape) for name in GEMM.operands})[
            "out"
        ]
        choices = [_choice(arrays, given, place) for place in range(self.mesh.ndim)]
        self.results = [result or Replicate() for result, _ in choices]
        self.placements = {
            name: [placed.get(name) or Replicate() for _, placed in choices] for name in arrays
        }
        # What a rank has whole beside parts of others gets its share of the gradient.
        self.gradients = {
            name: [
                placed.get(name) or (Partial() if any(placed.values()) else Replicate())
                for _, placed in choices
            ]
            for name in arrays
        }

    def part(self, name: str) -> Any:
        """A rank's part of an array."""
        array = self.arrays[name].redistribute(self.mesh, self.placements[name])
        return array.to_local(grad_placements=self.gradients[name])

    def whole(self, result: Any) -> Any:
        """The DTensor of which a rank has a part of the result."""
        from torch.distributed.tensor import DTensor

        return DTensor.from_local(
            result,
            self.mesh,
            self.results,
            run_check=False,
            shape=tuple(self.shape),
            stride=(self.shape[1], 1),
        )


def _choice(
    arrays: Mapping[str, Any], given: Mapping[str, Any], dimension: int
) -> tuple[Any, dict[str, Any]]:
    """The placements of the result and of the arrays, None for whole, on a dimension of the mesh:
    those for which the fewest elements come from other ranks; all whole, where that is no more.
    """
    choices: list[tuple[Any, dict[str, Any]]] = [(None, {})]
    for (result,), placed in rules(GEMM, ("out",), given):
        choices.append(
            (result, {LISTED_NAMES.get(name, name): where for name, where in placed.items()})
        )
    return min(choices, key=lambda choice: _moved(arrays, choice[1], dimension))


def _moved(arrays: Mapping[str, Any], placed: Mapping[str, Any], dimension: int) -> int:
    """How many elements of arrays come from other ranks for these placements."""
    return sum(
        array.numel()
        for name, array in arrays.items()
        if not array.placements[dimension].is_replicate()
        and array.placements[dimension] != placed.get(name)
    )
