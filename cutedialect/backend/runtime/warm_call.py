"""A call of the library on device arrays that look like those of an earlier one: where in its
launches each address goes. Nothing is checked again but what addresses decide: whether an output
overlaps another array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cutedialect.backend.runtime.arrays import pointer_reader, tensor_argument
from cutedialect.backend.runtime.buffers import span_bytes
from cutedialect.backend.runtime.cuda import PreparedCall
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.launch_looks import launch_look
from cutedialect.backend.runtime.streams import stream_handle
from cutedialect.backend.runtime.torch_tensors import is_torch, record_use, recording, version_bump


class Overlap(NamedTuple):
    """Two of the addresses of a call, of an array that is written and of another one, with the
    bytes that each array spans. With `may_be_same` they may be equal.
    """

    written: int
    other: int
    written_bytes: int
    other_bytes: int
    may_be_same: bool


@dataclass(frozen=True, slots=True)
class WarmCall:
    """`places` says of which array of the call each address of the kernel is. `bump`, where torch
    made the arrays, tells it of those at `written`, and `is_recording` says whether it is at work
    on more than values (`check_modes`).
    """

    prepared: PreparedCall
    places: tuple[int, ...]
    read: Callable[[Any], int | None]
    overlaps: tuple[Overlap, ...]
    written: tuple[int, ...]
    bump: Callable[[Sequence[Any]], object] | None
    is_recording: Callable[[], bool] | None = None

    def run(
        self,
        arrays: Sequence[Any],
        addresses: Sequence[int | None],
        numbers: tuple[float, ...],
        stream: Any,
    ) -> bool:
        """Launch; False, with nothing done, where an output may lie on another array, or torch is
        at work on more than values. `addresses` are those of the arrays, None where not yet read.
        """
        if self.is_recording is not None and self.is_recording():
            return False
        pointers: tuple[Any, ...] = tuple(
            [addresses[place] or self.read(arrays[place]) for place in self.places]
        )
        for written, beside, written_bytes, beside_bytes, may_be_same in self.overlaps:
            one, other = pointers[written], pointers[beside]
            if (
                one < other + beside_bytes
                and other < one + written_bytes
                and not (may_be_same and one == other)
            ):
                return False
        prepared = self.prepared
        if stream is None:
            handle = prepared.stream()
        else:
            handle = stream_handle(stream)
        prepared.template.run(pointers, numbers, handle)
        if self.bump is not None:
            self.bump([arrays[place] for place in self.written])
            if stream is not None:
                record_use([array for array in arrays if array is not None], stream)
        return True


def warm_call(
    kernel: Kernel,
    arguments: Sequence[Any],
    arrays: Sequence[Any],
    places: Sequence[int] | None = None,
    written: Sequence[int] = (),
    updated: int | None = None,
) -> WarmCall | None:
    """The warm form of a call that launched `kernel` on `arguments`, views of `arrays`.

    places: for each tensor among the arguments the array that it is a view of, with the same first
    element; found by the addresses if None. written: the arrays that the kernel writes and that the
    caller gave; they may lie on `updated` where they look the same. None where the call has to be
    made in full each time.
    """
    prepared, look = kernel.prepared(*arguments), launch_look(arguments)
    given = [array for array in arrays if array is not None]
    reads = {pointer_reader(array) for array in given}
    read = reads.pop() if len(reads) == 1 else None
    if prepared is None or look is None or read is None:
        return None
    pointers = look[1]
    of_arrays = [None if array is None else read(array) for array in arrays]
    if places is None:
        if len(set(of_arrays) - {None}) < len(given):
            return None
        found = [of_arrays.index(each) for each in pointers if each in of_arrays]
    else:
        found = list(places)
    if [of_arrays[place] for place in found] != list(pointers):
        return None
    results = [place for place, array in enumerate(arrays) if array is not None]
    overlaps = tuple(
        _overlap(arrays, found, one, other, other == updated)
        for one in written
        for other in results
        if other != one and other in found
    )
    bump = version_bump() if is_torch(given[0]) else None
    is_recording = recording() if is_torch(given[0]) else None
    stored = [found[place] for place in _written_pointers(kernel)]
    return WarmCall(prepared, tuple(found), read, overlaps, tuple(stored), bump, is_recording)


def _written_pointers(kernel: Kernel) -> list[int]:
    """Which of the tensors among a kernel's arguments it writes."""
    tensors = [parameter for parameter in kernel.signature.parameters if hasattr(parameter, "rank")]
    return [place for place, tensor in enumerate(tensors) if tensor.written]  # type: ignore[union-attr]


def _overlap(
    arrays: Sequence[Any], places: Sequence[int], one: int, other: int, may_be_same: bool
) -> Overlap:
    first, second = tensor_argument(arrays[one]), tensor_argument(arrays[other])
    assert first is not None
    assert second is not None
    looks = [(each.shape, each.strides, each.dtype) for each in (first, second)]
    return Overlap(
        places.index(one),
        places.index(other),
        span_bytes(first.shape, first.strides, first.dtype),
        span_bytes(second.shape, second.strides, second.dtype),
        may_be_same and looks[0] == looks[1],
    )
