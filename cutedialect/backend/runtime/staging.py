"""NumPy arrays on the device for the time of one call. Arrays that overlap in host memory overlap
on the device too, and each address keeps its place within 256 bytes: alignment carries over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cutedialect.backend.runtime.arguments import Bound, tensors_of
from cutedialect.backend.runtime.arrays import TensorArgument
from cutedialect.backend.runtime.buffers import span_of
from cutedialect.backend.runtime.device_memory import Allocation
from cutedialect.backend.runtime.driver import driver
from cutedialect.backend.runtime.signature import Signature

_ALIGNMENT = 256


@dataclass
class _Region:
    """Host bytes [low, high) that some arguments span; `written` if one of them is an output."""

    low: int
    high: int
    written: bool
    memory: Allocation | None = None

    @property
    def device(self) -> int:
        assert self.memory is not None
        return self.memory.pointer + self.low % _ALIGNMENT


@contextmanager
def staged(signature: Signature, bound: Bound, stream: int) -> Iterator[Bound]:
    """`bound` with host arrays replaced by device copies; on a normal exit what the kernel may have
    written is copied back and the stream is waited for.
    """
    found = driver()
    device = found.current_device()
    regions = _regions(signature, bound)
    for region in regions:
        size = region.high - region.low
        region.memory = Allocation(found, device, size + _ALIGNMENT)
        found.copy_to_device(region.device, region.low, size, stream)
    yield tuple(_moved(value, regions) for value in bound)
    for region in regions:
        if region.written:
            found.copy_to_host(region.low, region.device, region.high - region.low, stream)
    found.synchronize(stream)


def _regions(signature: Signature, bound: Bound) -> list[_Region]:
    spans = sorted(
        (*_span(value), parameter.written)
        for parameter, value in tensors_of(signature, bound)
        if 0 not in value.shape
    )
    regions: list[_Region] = []
    for low, high, written in spans:
        if regions and low < regions[-1].high:
            last = regions[-1]
            last.high = max(last.high, high)
            last.written = last.written or written
        else:
            regions.append(_Region(low, high, written))
    return regions


def _span(tensor: TensorArgument) -> tuple[int, int]:
    """Host addresses of the first byte and after the last one."""
    low, size = span_of(tensor)
    return low, low + size


def _moved(value: Any, regions: list[_Region]) -> Any:
    """An argument with its tensors on the device."""
    if isinstance(value, TensorArgument):
        return _moved_tensor(value, regions)
    return [_moved_tensor(each, regions) for each in value] if isinstance(value, list) else value


def _moved_tensor(tensor: TensorArgument, regions: list[_Region]) -> TensorArgument:
    for region in regions:
        if region.low <= tensor.pointer < region.high:
            return tensor._replace(pointer=region.device + tensor.pointer - region.low)
    return tensor._replace(pointer=0)
