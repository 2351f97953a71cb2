"""A call of the library on device arrays that look like those of an earlier one: where in its
launch each address goes. Nothing is checked again but what addresses decide: whether an output
overlaps another array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cutedialect.backend.runtime.arrays import pointer_reader
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.launch_looks import launch_look
from cutedialect.backend.runtime.repeats import Repeat, overlap, repeat_of


def warm_call(
    kernel: Kernel,
    arguments: Sequence[Any],
    arrays: Sequence[Any],
    places: Sequence[int],
    makers: Mapping[int, Callable[[Any, Any], Any]],
    returned: Sequence[int],
    *,
    written: Sequence[int] = (),
    updated: int | None = None,
    apart: Sequence[tuple[int, int]] = (),
) -> Repeat | None:
    """The warm form of a call that launched `kernel` on `arguments`, views of `arrays`, of which it
    made those of `makers`, and whose result is those at `returned`.

    places: for each tensor among the arguments the array that it is a view of, with the same first
    element. written: the arrays that the kernel writes and that the caller gave; they may lie on
    `updated` where they look the same. apart: arrays that begin at two addresses in every such
    call. None where the call has to be made in full each time.
    """
    prepared, look = kernel.prepared(*arguments), launch_look(arguments)
    if prepared is None or look is None:
        return None
    addresses = [None if array is None else _address(array) for array in arrays]
    if [addresses[place] for place in places] != list(look[1]):
        return None
    results = [place for place, array in enumerate(arrays) if array is not None]
    overlaps = [
        overlap(arrays, one, other, other == updated)
        for one in written
        for other in results
        if other != one and other in places and other not in makers
    ]
    stored = [places[place] for place in _written_pointers(kernel)]
    return repeat_of(
        prepared,
        arrays,
        places,
        makers=makers,
        overlaps=overlaps,
        apart=apart,
        written=stored,
        returned=returned,
    )


def _address(array: Any) -> int | None:
    read = pointer_reader(array)
    return None if read is None else read(array)


def _written_pointers(kernel: Kernel) -> list[int]:
    """Which of the tensors among a kernel's arguments it writes."""
    tensors = [parameter for parameter in kernel.signature.parameters if hasattr(parameter, "rank")]
    return [place for place, tensor in enumerate(tensors) if tensor.written]  # type: ignore[union-attr]
